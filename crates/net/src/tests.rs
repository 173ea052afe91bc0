//! The loop against real sockets: wake-ups, deadlines, ends of streams.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use super::*;

fn any_port() -> Endpoint {
    Endpoint::Tcp("127.0.0.1:0".parse().unwrap())
}

fn tcp(endpoint: &Endpoint) -> std::net::SocketAddr {
    match endpoint {
        Endpoint::Tcp(address) => *address,
        Endpoint::Unix(_) => panic!("not TCP"),
    }
}

/// Reads until the end of the stream.
async fn read_all(stream: &Stream) -> Vec<u8> {
    let mut buffer = Vec::new();
    loop {
        buffer.reserve(1024);
        if poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.unwrap() == 0 {
            return buffer;
        }
    }
}

#[test]
fn what_a_client_sends_arrives_and_its_end_is_seen() {
    let binding = Binding::bind(&any_port(), 1).unwrap();
    let address = tcp(binding.endpoint());
    let client = std::thread::spawn(move || {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"hello ").unwrap();
        client.write_all(b"world").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        answer
    });
    let got = run(async move {
        let stream =
            binding.listeners(0).unwrap().remove(0).accept().await.unwrap().into_stream().unwrap();
        let got = read_all(&stream).await;
        assert!(stream.is_closed());
        poll_fn(|cx| stream.poll_write_two(cx, b"good", b"bye")).await.unwrap();
        got
    })
    .unwrap();
    assert_eq!(got, b"hello world");
    assert_eq!(client.join().unwrap(), b"goodbye");
}

#[test]
fn a_client_that_leaves_is_noticed_while_nobody_reads() {
    let binding = Binding::bind(&any_port(), 1).unwrap();
    let address = tcp(binding.endpoint());
    run(async move {
        let client = TcpStream::connect(address).unwrap();
        let listener = binding.listeners(0).unwrap().remove(0);
        let stream = listener.accept().await.unwrap().into_stream().unwrap();
        spawn(async move { drop(client) });
        poll_fn(|cx| stream.poll_closed(cx)).await;
        assert!(stream.is_stale());
    })
    .unwrap();
}

#[test]
fn every_worker_has_its_own_socket_of_one_port() {
    let binding = Binding::bind(&any_port(), 3).unwrap();
    assert_ne!(tcp(binding.endpoint()).port(), 0);
    run(async move {
        for worker in 0..3 {
            assert!(binding.listeners(worker).is_ok());
        }
        assert!(binding.listeners(3).is_err());
    })
    .unwrap();
}

#[test]
fn a_refused_connection_is_an_error() {
    let free = tcp(Binding::bind(&any_port(), 1).unwrap().endpoint());
    let error = run(async move { connect(&Endpoint::Tcp(free)).await.unwrap_err() }).unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_dead_unix_socket_file_is_replaced_and_a_live_one_is_not() {
    let path = std::env::temp_dir().join(format!("sluice-net-{}.sock", std::process::id()));
    let dead = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(dead);
    let endpoint = Endpoint::Unix(path.clone());
    let binding = Binding::bind(&endpoint, 2).unwrap();
    assert!(Binding::bind(&endpoint, 2).is_err(), "somebody listens");
    run(async move {
        let stream = connect(&endpoint).await.unwrap();
        let listener = binding.listeners(1).unwrap().remove(0);
        // The first connection is the second bind's question whether anybody listens.
        for _ in 0..2 {
            let accepted = listener.accept().await.unwrap();
            assert_eq!(accepted.peer.ip(), std::net::Ipv4Addr::LOCALHOST);
        }
        assert_eq!(read_all(&stream).await, b"");
    })
    .unwrap();
    assert!(!path.exists(), "the file goes with the listener");
}

#[test]
fn deadlines_fire_in_their_order_and_moved_ones_at_their_new_time() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&order);
    run(async move {
        for (name, wait) in [("late", 300), ("early", 5), ("middle", 150)] {
            let order = Rc::clone(&order);
            spawn(async move {
                let deadline = Deadline::new();
                let never = std::future::pending::<()>();
                assert_eq!(deadline.limit(Duration::from_millis(wait), never).await, Err(Elapsed));
                order.borrow_mut().push(name);
                // Moved twice: later costs nothing, earlier must still be heard.
                assert_eq!(deadline.limit(Duration::from_secs(60), async { 7 }).await, Ok(7));
                deadline.sleep(Duration::from_millis(1)).await;
                order.borrow_mut().push("again");
            });
        }
        while order.borrow().len() < 6 {
            yield_now().await;
        }
    })
    .unwrap();
    seen.borrow_mut().retain(|&name| name != "again");
    assert_eq!(*seen.borrow(), ["early", "middle", "late"]);
}

#[test]
fn other_threads_wake_a_task_by_mail() {
    let (post, mut mailbox) = mailbox();
    let sender = std::thread::spawn(move || {
        for number in 0..100 {
            post.clone().send(number);
        }
    });
    let sum = run(async move {
        let mut sum = 0;
        while let Some(number) = mailbox.recv().await {
            sum += number;
        }
        sum
    })
    .unwrap();
    sender.join().unwrap();
    assert_eq!(sum, 4950);
}

#[test]
fn a_busy_task_lets_others_run() {
    let binding = Binding::bind(&any_port(), 1).unwrap();
    let address = tcp(binding.endpoint());
    run(async move {
        let client = TcpStream::connect(address).unwrap();
        client.set_nonblocking(true).unwrap();
        let listener = binding.listeners(0).unwrap().remove(0);
        let stream = listener.accept().await.unwrap().into_stream().unwrap();
        let turns = Rc::new(Cell::new(0));
        let counted = Rc::clone(&turns);
        spawn(async move {
            loop {
                counted.set(counted.get() + 1);
                yield_now().await;
            }
        });
        // Small writes that never block: only the budget makes this task give way.
        for _ in 0..1000 {
            poll_fn(|cx| stream.poll_write(cx, b"x")).await.unwrap();
        }
        assert!(turns.get() >= 10, "{} turns", turns.get());
        drop(client);
    })
    .unwrap();
}

#[test]
fn tasks_that_end_leave_nothing_behind() {
    run(async {
        for _ in 0..100 {
            spawn(async { yield_now().await });
        }
        assert_eq!(live_tasks(), 101);
        wake_all();
        for _ in 0..4 {
            yield_now().await;
        }
        assert_eq!(live_tasks(), 1);
    })
    .unwrap();
}

/// Something put off that says when it was done.
struct PutOff(Rc<RefCell<Vec<&'static str>>>);

impl Late for PutOff {
    fn run(&self) {
        self.0.borrow_mut().push("put off");
    }
}

#[test]
fn what_is_put_off_comes_after_all_tasks_of_its_turn_and_before_those_of_the_next() {
    let seen: Rc<RefCell<Vec<&str>>> = Rc::default();
    let log = Rc::clone(&seen);
    run(async move {
        let (one, other) = (Rc::clone(&log), Rc::clone(&log));
        spawn(async move {
            at_end_of_turn(Rc::new(PutOff(Rc::clone(&one))));
            one.borrow_mut().push("one");
            yield_now().await;
            one.borrow_mut().push("one, later");
        });
        spawn(async move { other.borrow_mut().push("other") });
        yield_now().await;
        yield_now().await;
    })
    .unwrap();
    assert_eq!(*seen.borrow(), ["one", "other", "put off", "one, later"]);
}

#[test]
fn what_is_done_for_another_task_is_not_counted_as_the_running_ones() {
    let asks =
        |cx: &std::task::Context<'_>| (0..100).filter(|_| task::poll_budget(cx).is_ready()).count();
    run(poll_fn(move |cx| {
        assert_eq!(for_another_task(|| asks(cx)), 64);
        assert_eq!(asks(cx), 64);
        assert_eq!(for_another_task(|| asks(cx)), 64);
        assert_eq!(asks(cx), 0);
        std::task::Poll::Ready(())
    }))
    .unwrap();
}
