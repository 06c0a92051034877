//! treewatch: a file-system monitor for git.

fn main() {
    eprintln!("treewatch: not built yet");
    std::process::exit(2);
}
