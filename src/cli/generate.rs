//! `treewatch generate`: man pages and completions, from the same definitions as the help.
//! For packages and `make install`; not shown in the help.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate_to};

use super::problem::{Outcome, Problem};
use super::{Arguments, exit};

/// `treewatch generate DIR`: DIR/man1, DIR/bash, DIR/zsh, DIR/fish.
pub fn run(dir: &Path) -> Outcome {
    all(dir).map_err(|error| {
        Problem::new(format_args!(
            "cannot write below {}: {error}",
            dir.display()
        ))
    })?;
    Ok(exit::OK)
}

fn all(dir: &Path) -> io::Result<()> {
    for (shell, name) in [
        (Shell::Bash, "bash"),
        (Shell::Zsh, "zsh"),
        (Shell::Fish, "fish"),
    ] {
        let dir = dir.join(name);
        fs::create_dir_all(&dir)?;
        generate_to(shell, &mut Arguments::command(), "treewatch", &dir)?;
    }
    // bash-completion looks for a file with the command's own name.
    fs::rename(dir.join("bash/treewatch.bash"), dir.join("bash/treewatch"))?;
    let man = dir.join("man1");
    fs::create_dir_all(&man)?;
    // For `git help treewatch` and `git treewatch --help`.
    fs::write(man.join("git-treewatch.1"), ".so man1/treewatch.1\n")?;
    let mut command = Arguments::command().disable_help_subcommand(true);
    // Only then do subcommands have the options that are for all of them.
    command.build();
    page(&command, "treewatch", &man)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("treewatch-{}", sub.get_name());
        page(&sub.clone().disable_version_flag(true), &name, &man)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str, man: &Path) -> io::Result<()> {
    let command = command
        .clone()
        .name(name.to_owned())
        .bin_name(name.replacen('-', " ", 1))
        .version(env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    fs::write(man.join(format!("{name}.1")), page)
}
