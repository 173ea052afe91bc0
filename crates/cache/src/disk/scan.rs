//! What is found in the folder at the start: heads are read beside everything else, contents when they are wanted.

use std::sync::{Arc, Weak};

use super::form::{Damage, Head};
use super::index::{FOLDERS, Number, Slip, locked};
use super::place::Place;
use super::trouble::Trouble;
use super::{Disk, blocks};
use crate::entry::Identity;

/// Looks at all files, as long as the folder is in use.
pub(super) fn scan(disk: &Weak<Disk>, place: &dyn Place) {
    for number in 0..FOLDERS {
        let Some(disk) = disk.upgrade() else { return };
        let folder = Number::folder(number);
        match place.names(&folder) {
            Ok(names) => {
                for name in names {
                    disk.meet((&folder, &name), place);
                }
            }
            Err(error) => disk.fail(&error),
        }
    }
    let Some(disk) = disk.upgrade() else { return };
    *locked(&disk.purges) = None;
    disk.shrink();
}

impl Disk {
    /// A file is there. It may be one of ours that can be used.
    fn meet(self: &Arc<Self>, (folder, name): (&str, &str), place: &dyn Place) {
        let path = format!("{folder}/{name}");
        if let Some(stem) = name.strip_suffix(".new") {
            // What another process was writing when it ended. What this one writes is not touched.
            if Number::of_name(stem).is_some_and(|number| number.run != self.run) {
                let _ = place.remove(&path);
            }
            return;
        }
        let Some(number) = Number::of_name(name).filter(|number| number.run != self.run) else {
            return;
        };
        let head = place.open(&path).map_err(Damage::from).and_then(|file| Head::read(&file));
        match head {
            Ok(head) => self.welcome(head, number, place),
            Err(damage) => {
                let line =
                    || format!("cache file {}/{path} is dropped: {damage}", self.path.display());
                self.troubles.count(Trouble::Damaged, line);
                let _ = place.remove(&path);
            }
        }
    }

    fn welcome(self: &Arc<Self>, head: Head, number: Number, place: &dyn Place) {
        let stored = head.stored();
        let hash = self.hashing.hash(&head.url);
        let bytes = blocks(head.at.saturating_add(head.content.length));
        let slip = Arc::new(Slip::new(
            Identity { hash, url: head.url.clone(), extra: head.extra.clone() },
            self.zone(&head.zone),
            (stored.vary.clone(), stored.tags.clone()),
            (number, bytes),
        ));
        if head.spoiled {
            slip.spoil();
        }
        self.budget.count(bytes);
        let left = self.index.insert(&slip);
        let stays = !left.iter().any(|one| Arc::ptr_eq(one, &slip));
        for one in &left {
            self.take_off(&one.number.to_string(), one.bytes, place);
        }
        if stays {
            self.judge_late(&slip);
        }
    }
}
