//! A script's request is put together without a single allocation, whatever variables it has.
#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use sluice_load::script::{Form, Limit, Script, Text};
use sluice_load::source::{Requests, Step};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SCRIPT: &str = "
variables:
  - {name: word, type: list, data: [one, 'two words'], replace: {o: '0'}}
  - {name: number, type: sequence}
  - {name: some, type: range, from: -5, to: 5, replace: {'-': minus}}
  - {name: array, type: random_array, variable_key: some, size: 5}
  - {name: id, type: uuid}
  - {name: now, type: now_utc}
  - {name: local, type: now_with_format, format: 'Mon Jan _2 15:04:05.000 MST 2006'}
  - {name: nano, type: now_unix_in_nano}
  - {name: bits, type: int_array_bitmap, size: 50, to: 100000}
requests:
  - request:
      method: POST
      url: http://a/$[[word]]/$[[number]]?n=$[[once]]
      headers: [X-Id: '$[[id]]', X-Time: '$[[local]]']
      runtime_variables: {once: nano}
      runtime_body_line_variables: {line: id}
      body_repeat_times: 10
      body: '{\"$[[line]]\": $[[array]], \"$[[now]]\": \"$[[bits]]\", \"$[[once]]\": 1}'
  - request: {url: 'http://a/constant'}
";

#[test]
fn a_rendered_request_allocates_nothing() {
    let files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let text = Text { name: "s.yml", text: SCRIPT, form: Form::Yaml, base: None };
    let script = Script::read(text, &|_| None, &files).unwrap();
    let plan = Arc::new(script).plan(Limit::default());
    let mut worker = plan.worker(0);
    let mut out = Vec::new();
    let mut render = |times: usize| {
        for _ in 0..times {
            out.clear();
            assert!(matches!(worker.next(&mut out), Step::Send(_)));
        }
    };
    // Buffers grow to their size, some of them later than others: what is drawn at random has no largest length.
    render(500);
    let batches = (0..10).map(|_| {
        let before = ALLOCATIONS.with(Cell::get);
        render(500);
        ALLOCATIONS.with(Cell::get) - before
    });
    assert_eq!(batches.min(), Some(0));
}
