//! Files, compression and the cache, whatever is spoken on either side.

use super::chain::{Chain, Reply, large};

/// The page of the origin that may be kept and made smaller: its content.
fn page() -> Vec<u8> {
    large()[..100_000].to_vec()
}

fn assert_page(reply: &Reply, content: &[u8]) {
    assert_eq!(reply.status(), 200);
    assert!(reply.content == content, "{} bytes", reply.content.len());
}

pub(super) fn files(chain: &Chain) {
    let (large, page) = (large(), page());
    chain.file_of_site("large.txt", &large);
    chain.file_of_site("page.txt", &page[..20_000]);
    chain.file_of_site("folder/index.html", b"index");
    for _ in 0..2 {
        assert_page(&chain.get("/site/large.txt"), &large);
        assert_page(&chain.get("/site/page.txt"), &page[..20_000]);
    }
    assert_eq!(chain.get("/site/folder/").text(), "index");
    assert_eq!(chain.get("/site/folder").status(), 301);
    assert_eq!(chain.get("/site/none").status(), 404);
    let part = chain.ask("/site/large.txt", &["-r", "1000000-2999999"]);
    assert_eq!(part.status(), 206);
    assert_eq!(part.fields("content-range"), ["bytes 1000000-2999999/4194304"]);
    assert!(part.content == large[1_000_000..3_000_000], "{} bytes", part.content.len());
    let etag = chain.get("/site/page.txt").fields("etag")[0].to_owned();
    let known = chain.ask("/site/page.txt", &["-H", &format!("If-None-Match: {etag}")]);
    assert_eq!((known.status(), known.content.len()), (304, 0));
    let head = chain.ask("/site/large.txt", &["-I", "-o", "/dev/null"]);
    assert_eq!((head.status(), head.fields("content-length")), (200, vec!["4194304"]));
}

pub(super) fn compressed(chain: &Chain) {
    let page = page();
    for coding in ["gzip", "br", "zstd"] {
        let accept = format!("Accept-Encoding: {coding}");
        for _ in 0..2 {
            let reply = chain.ask("/smaller/page", &["-H", &accept]);
            assert_eq!((reply.status(), reply.fields("content-encoding")), (200, vec![coding]));
            assert_eq!(
                (reply.fields("vary"), reply.fields("etag")),
                (vec!["Accept-Encoding"], vec!["W/\"p\""])
            );
            assert!(reply.content.len() < page.len() / 2, "{} bytes", reply.content.len());
        }
        let reply = chain.ask("/smaller/page", &["-H", &accept, "--compressed"]);
        // curl undoes what it knows.
        if reply.code == 0 {
            assert_page(&reply, &page);
        }
    }
    assert_page(&chain.get("/smaller/page"), &page);
    let head =
        chain.ask("/smaller/page", &["-I", "-o", "/dev/null", "-H", "Accept-Encoding: gzip"]);
    assert_eq!((head.status(), head.fields("content-encoding")), (200, vec!["gzip"]));
}

pub(super) fn cached(chain: &Chain) {
    let page = page();
    let asked = || Chain::targets(&chain.one).iter().filter(|it| *it == "/kept/page").count();
    assert_page(&chain.get("/kept/page"), &page);
    let before = asked();
    for _ in 0..3 {
        let reply = chain.get("/kept/page");
        assert_page(&reply, &page);
        assert!(reply.fields("cache-status")[0].starts_with("sluice; hit; ttl="));
        assert_eq!((reply.fields("age").len(), reply.fields("etag")), (1, vec!["\"p\""]));
    }
    let part = chain.ask("/kept/page", &["-r", "10-19"]);
    assert_eq!((part.status(), part.fields("content-range")), (206, vec!["bytes 10-19/100000"]));
    assert_eq!(part.content, page[10..20]);
    let parts = chain.ask("/kept/page", &["-r", "0-1,99998-99999"]);
    let kind = parts.fields("content-type")[0].to_owned();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("two parts");
    let one = |range: &str, content: &[u8]| {
        let content = String::from_utf8_lossy(content);
        format!(
            "--{boundary}\r\ncontent-type: text/plain\r\ncontent-range: bytes {range}/100000\r\n\r\n{content}\r\n"
        )
    };
    let expected = one("0-1", &page[..2])
        + &one("99998-99999", &page[99_998..])
        + &format!("--{boundary}--\r\n");
    assert_eq!((parts.status(), parts.text().trim_start_matches("\r\n")), (206, expected.as_str()));
    let known = chain.ask("/kept/page", &["-H", "If-None-Match: \"p\""]);
    assert_eq!((known.status(), known.content.len()), (304, 0));
    let head = chain.ask("/kept/page", &["-I", "-o", "/dev/null"]);
    assert_eq!((head.status(), head.fields("content-length")), (200, vec!["100000"]));
    assert_eq!(asked(), before, "the origin was asked once");
    // What is kept behind the cache is kept compressed.
    for _ in 0..2 {
        let reply = chain.ask("/packed/page", &["-H", "Accept-Encoding: gzip"]);
        assert_eq!(reply.fields("content-encoding"), ["gzip"]);
    }
    let reply = chain.ask("/packed/page", &["-H", "Accept-Encoding: gzip", "--compressed"]);
    assert_page(&reply, &page);
    assert!(reply.fields("cache-status")[0].starts_with("sluice; hit; ttl="));
}
