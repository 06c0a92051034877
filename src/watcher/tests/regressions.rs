//! Faults that were found, one test each, named for what broke.

use super::Rig;
use crate::backend::scripted::Look;
use crate::backend::scripted::ops::{Entry, Op, Slot};
use crate::backend::scripted::world::{Mode, OPEN};
use crate::watcher::tracker::{Phase, Trouble};

const CLOSED: Mode = Mode {
    read: false,
    search: false,
};
const LISTED_ONLY: Mode = Mode {
    read: true,
    search: false,
};

fn mkdir(path: &'static str) -> Op {
    Op::Mkdir(Slot::At(path))
}

fn write(path: &'static str) -> Op {
    Op::Write(Slot::At(path))
}

fn rename(from: &'static str, to: &'static str) -> Op {
    Op::Rename(Entry::At(from), Slot::At(to))
}

fn remove(path: &'static str) -> Op {
    Op::Remove(Entry::At(path), false)
}

fn link(from: &'static str, to: &'static str) -> Op {
    Op::Link(Entry::At(from), Slot::At(to))
}

fn chmod(path: &'static str, mode: Mode) -> Op {
    Op::Chmod(Entry::At(path), mode)
}

/// A rig that has answered once, with these in the tree; and the place of that answer.
fn answered(ops: impl IntoIterator<Item = Op>) -> (Rig, u64) {
    let mut rig = Rig::new(1);
    rig.run(ops);
    assert!(rig.query(0));
    let place = rig.tracker.place();
    (rig, place)
}

/// Runs operations, asks, and returns what is named since `place`.
fn ask(rig: &mut Rig, place: u64, ops: impl IntoIterator<Item = Op>) -> Option<Vec<String>> {
    rig.run(ops);
    assert!(rig.query(0));
    rig.names(place)
}

/// To be done right before the tracker looks.
fn before(rig: &mut Rig, look: Look, path: &'static str, ops: Vec<Op>) {
    rig.tracker.backend().before.push_back((look, path, ops));
}

#[test]
fn a_queue_read_between_the_halves_of_a_rename_lost_the_old_names() {
    let (mut rig, place) = answered([mkdir("a"), write("a/f")]);
    rig.world().pending.push_back(rename("a", "b"));
    // The rename and its first half are in the first reading, the rest in the second.
    rig.tracker.backend().schedule = [2, 0, 0, 0, 1].into();
    let named = ask(&mut rig, place, []).expect("exact");
    for path in ["a", "a/f", "b", "b/f"] {
        assert!(
            named.contains(&path.to_owned()),
            "{path} is not in {named:?}"
        );
    }
    rig.check_belief();
}

#[test]
fn a_directory_renamed_again_before_it_was_listed_lost_its_first_names() {
    let (mut rig, place) = answered([mkdir("c"), mkdir("c/c"), write("c/c/f")]);
    before(&mut rig, Look::List, "b", vec![rename("b/c", "a")]);
    let named = ask(&mut rig, place, [rename("c", "b")]).expect("exact");
    assert!(named.contains(&"c/c/f".to_owned()), "{named:?}");
    rig.check_belief();
}

#[test]
fn an_empty_directory_kept_what_git_had_listed_in_an_earlier_life_of_it() {
    let (mut rig, place) = answered([]);
    rig.run([mkdir("d"), write("d/f")]);
    rig.look_again(0xff);
    let named = ask(&mut rig, place, [remove("d/f"), remove("d"), mkdir("d")]);
    let named = named.expect("exact");
    assert!(named.iter().any(|path| path.starts_with("d/")), "{named:?}");
}

#[test]
fn a_directory_that_left_one_that_was_removed_was_not_missed() {
    let (mut rig, place) = answered([mkdir("d"), mkdir("d/sub"), write("d/sub/f")]);
    let named = ask(&mut rig, place, [rename("d/sub", "/out/sub"), remove("d")]);
    assert_eq!(named, None);
    rig.check_belief();
}

#[test]
fn a_directory_that_could_not_be_searched_at_first_stayed_unwatched() {
    let (mut rig, place) = answered([mkdir("d"), mkdir("d/e"), chmod("d", LISTED_ONLY)]);
    assert_eq!(ask(&mut rig, place, [chmod("d", OPEN)]), None);
    rig.check_belief();
}

#[test]
fn a_directory_closed_for_a_moment_stayed_blind() {
    let (mut rig, place) = answered([]);
    before(&mut rig, Look::List, "d/e", vec![chmod("d", CLOSED)]);
    before(&mut rig, Look::Drain, "", vec![chmod("d", OPEN)]);
    rig.run([mkdir("d"), mkdir("d/e"), mkdir("d/e/f")]);
    // The first reading is before the first look.
    let first = rig.tracker.backend().before.pop_back();
    assert!(rig.query(0));
    rig.tracker.backend().before.extend(first);
    assert!(rig.query(0));
    rig.check_belief();
    assert_eq!(rig.names(place), None);
}

#[test]
fn another_directory_in_the_place_of_a_closed_one_took_over_its_watch() {
    let (mut rig, place) = answered([mkdir("d"), mkdir("d/e")]);
    let (_, closed) = (
        ask(&mut rig, place, [chmod("d", CLOSED)]),
        rig.tracker.place(),
    );
    assert_eq!(
        ask(&mut rig, closed, [rename("d", "/out/d"), mkdir("d")]),
        None
    );
    rig.check_belief();
}

#[test]
fn a_directory_below_a_closed_one_was_named_for_ever_after_it_was_removed() {
    let (mut rig, place) = answered([mkdir("d"), mkdir("d/e")]);
    ask(&mut rig, place, [chmod("d", CLOSED)]);
    ask(&mut rig, place, [remove("d/e")]);
    ask(&mut rig, place, [chmod("d", OPEN)]);
    rig.check_belief();
}

#[test]
fn a_git_directory_in_a_git_directory_was_named() {
    let (mut rig, place) = answered([mkdir("d"), mkdir("d/.git")]);
    // Rig::answer sees to it that no answer names it.
    let named = ask(&mut rig, place, [mkdir("d/.git/.git")]);
    assert_eq!(named, Some(vec!["d".to_owned()]));
    rig.check_belief();
}

#[test]
fn a_git_directory_that_was_removed_was_named() {
    let (mut rig, place) = answered([mkdir("d"), mkdir("d/.git")]);
    let named = ask(&mut rig, place, [remove("d/.git")]).expect("exact");
    assert!(named.contains(&"d".to_owned()), "{named:?}");
}

#[test]
fn a_directory_that_became_a_git_directory_kept_its_files_for_git() {
    let (mut rig, place) = answered([mkdir("a"), mkdir("b"), mkdir("b/x"), write("b/x/f")]);
    assert_eq!(ask(&mut rig, place, [rename("b", "a/.git")]), None);
    rig.check_belief();
}

#[test]
fn a_git_directory_that_cannot_be_listed_was_named_itself() {
    let (mut rig, _) = answered([mkdir("d"), mkdir("d/.git"), chmod("d/.git", CLOSED)]);
    let place = rig.tracker.place();
    assert_eq!(ask(&mut rig, place, []), Some(vec!["d".to_owned()]));
}

#[test]
fn a_written_file_was_replaced_before_its_links_were_counted() {
    let (mut rig, place) = answered([write("a"), link("a", "b"), write("t")]);
    before(&mut rig, Look::Links, "b", vec![rename("t", "b")]);
    assert_eq!(ask(&mut rig, place, [write("b")]), None);
}

#[test]
fn links_were_counted_of_a_file_in_another_directory_of_the_same_name() {
    let (mut rig, place) = answered([write("a"), mkdir("d")]);
    let instead = vec![rename("d", "e"), mkdir("d"), write("d/t")];
    before(&mut rig, Look::Links, "d/t", instead);
    let ops = [link("a", "d/t"), write("d/t")];
    assert_eq!(ask(&mut rig, place, ops), None);
}

#[test]
fn the_links_of_a_new_file_whose_directory_moved_were_not_counted() {
    let (mut rig, place) = answered([write("a"), mkdir("d")]);
    before(&mut rig, Look::Links, "d/t", vec![rename("d", "e")]);
    let ops = [link("a", "d/t"), write("d/t")];
    assert_eq!(ask(&mut rig, place, ops), None);
}

#[test]
fn a_written_file_that_was_exchanged_was_looked_for_in_the_wrong_place() {
    let (mut rig, place) = answered([write("a"), link("a", "b"), write("c")]);
    let exchange = Op::Exchange(Entry::At("b"), Slot::At("c"));
    assert_eq!(ask(&mut rig, place, [write("b"), exchange]), None);
}

#[test]
fn a_file_written_while_it_was_exchanged_was_looked_for_in_the_wrong_place() {
    let (mut rig, place) = answered([write("a"), link("a", "b"), write("c")]);
    // The events of the exchange, with the write told in the middle.
    let exchange = Op::Exchange(Entry::At("b"), Slot::At("c"));
    rig.run([exchange]);
    let mut events: Vec<_> = rig.world().queue.drain(..).collect();
    rig.run([write("c")]);
    let written = rig.world().queue.drain(..).next();
    events.insert(2, written.expect("told"));
    rig.world().queue.extend(events);
    assert_eq!(ask(&mut rig, place, []), None);
}

#[test]
fn a_write_through_a_link_in_a_directory_not_yet_watched_was_missed() {
    let (mut rig, place) = answered([write("a")]);
    let ops = [mkdir("n"), link("a", "n/x"), write("n/x")];
    assert_eq!(ask(&mut rig, place, ops), None);
}

#[test]
fn a_file_written_in_a_directory_not_yet_watched_and_moved_out_was_missed() {
    let (mut rig, place) = answered([write("a")]);
    let ops = [
        mkdir("n"),
        link("a", "n/x"),
        write("n/x"),
        rename("n/x", "y"),
    ];
    assert_eq!(ask(&mut rig, place, ops), None);
}

#[test]
fn a_file_that_came_in_and_went_at_once_was_taken_for_a_temporary_one() {
    let (mut rig, place) = answered([write("a"), link("a", "/out/x")]);
    let ops = [rename("/out/x", "y"), write("y"), remove("y")];
    assert_eq!(ask(&mut rig, place, ops), None);
}

#[test]
fn a_file_that_moved_between_look_and_answer_was_left_for_the_next_one() {
    let (mut rig, place) = answered([write("a"), mkdir("d")]);
    before(&mut rig, Look::Links, "t", vec![rename("t", "d/t")]);
    assert_eq!(ask(&mut rig, place, [link("a", "t"), write("t")]), None);
}

#[test]
fn a_write_in_what_was_a_git_directory_a_moment_before_was_passed_over() {
    let (mut rig, place) = answered([write("f"), mkdir("d"), mkdir("d/.git")]);
    let ops = [rename("d/.git", "d/a"), link("f", "d/a/f"), write("d/a/f")];
    assert_eq!(ask(&mut rig, place, ops), None);
}

#[test]
fn temporary_files_are_still_exact() {
    let (mut rig, place) = answered([write("a")]);
    let ops = [write("t"), write("t"), rename("t", "a")];
    let named = ask(&mut rig, place, ops).expect("exact");
    assert_eq!(named, ["a", "t"]);
}

#[test]
fn a_link_that_was_made_written_and_removed_at_once_was_taken_for_a_temporary_file() {
    let (mut rig, place) = answered([write("a")]);
    let ops = [link("a", "t"), write("t"), remove("t")];
    assert_eq!(ask(&mut rig, place, ops), None);
}

#[test]
fn somebody_who_never_stops_writing_kept_everybody_waiting() {
    let (mut rig, place) = answered([write("a"), write("b")]);
    for _ in 0..100 {
        before(&mut rig, Look::Drain, "", vec![write("a")]);
    }
    let named = ask(&mut rig, place, [write("b")]).expect("exact");
    assert!(named.contains(&"b".to_owned()), "{named:?}");
    let left = rig.tracker.backend().before.len();
    assert!(left > 90, "the queue was read {} times", 100 - left);
}

#[test]
fn too_few_watches_give_no_answer_and_everything_back() {
    let mut rig = Rig::new(1);
    rig.run([mkdir("a"), mkdir("b"), mkdir("c")]);
    rig.world().watch_limit = 3;
    assert!(!rig.query(0));
    assert_eq!(rig.tracker.phase(), Phase::Degraded(Trouble::Watches));
    let watched = |rig: &Rig| rig.world().inodes.iter().any(|inode| inode.watch.is_some());
    assert!(!watched(&rig));
    rig.world().watch_limit = usize::MAX;
    rig.tracker.resync("trying again");
    assert!(rig.query(0));
    rig.check_belief();
}
