//! How far a walk says it is.

use super::Rig;
use crate::backend::scripted::ops::{Op, Slot};
use crate::watcher::tracker::Phase;

/// Three directories at the top, of which one holds nearly all there is.
const TREE: [&str; 12] = [
    "a", "a/1", "a/1/1", "b", "b/1", "c", "c/1", "c/1/1", "c/1/2", "c/1/2/1", "c/2", "c/2/1",
];

#[test]
fn a_walk_tells_how_much_of_it_is_done() {
    let mut rig = Rig::new(1);
    rig.run(TREE.map(|path| Op::Mkdir(Slot::At(path))));
    let walked = |rig: &Rig| rig.tracker.state().walked;
    assert_eq!(walked(&rig), 0.0);
    let mut last = 0.0;
    while rig.tracker.phase() == Phase::Crawling {
        rig.pump_briefly();
        assert!(walked(&rig) >= last, "{last}, then {}", walked(&rig));
        last = walked(&rig);
    }
    assert!((last - 1.0).abs() < 1e-9, "{last}");
    rig.tracker.resync("a test");
    assert_eq!(walked(&rig), 0.0);
}
