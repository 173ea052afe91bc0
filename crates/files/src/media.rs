//! Media types by extension.

use crate::Settings;

/// Extensions in lower case, sorted, and their types.
const TYPES: &[(&str, &str)] = &[
    ("3gp", "video/3gpp"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("br", "application/octet-stream"),
    ("bz2", "application/x-bzip2"),
    ("cjs", "text/javascript"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("deb", "application/vnd.debian.binary-package"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("heic", "image/heic"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar"),
    ("jar", "application/java-archive"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mid", "audio/midi"),
    ("mjs", "text/javascript"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rar", "application/vnd.rar"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "text/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The value of `Content-Type` for a file at this path.
pub(crate) fn content_type(path: &[u8], settings: &Settings) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    // A name that is nothing but an extension has none.
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0);
    let extension = dot.and_then(|at| name.get(at + 1..)).unwrap_or_default().to_ascii_lowercase();
    let chosen = settings.types.iter().find(|(known, _)| *known == extension);
    let media = chosen.map(|(_, media)| media.as_str()).or_else(|| known(&extension));
    let media = media.unwrap_or(&settings.default_type);
    let text = media.starts_with("text/") || media == "image/svg+xml";
    match &settings.charset {
        Some(charset) if text && !media.contains("charset=") => {
            format!("{media}; charset={charset}")
        }
        _ => media.to_owned(),
    }
}

fn known(extension: &[u8]) -> Option<&'static str> {
    let at = TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(extension)).ok()?;
    TYPES.get(at).map(|(_, media)| *media)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::tests::settings;

    #[test]
    fn extensions_have_types() {
        assert!(TYPES.is_sorted_by(|one, other| one.0 < other.0));
        let mut settings = settings("/");
        settings.types.push((b"foo".to_vec(), "text/x-foo; charset=koi8-r".into()));
        settings.types.push((b"md".to_vec(), "text/plain".into()));
        let rows = [
            ("index.html", "text/html; charset=utf-8"),
            ("a/B.HTML", "text/html; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.svg", "image/svg+xml; charset=utf-8"),
            ("a.tar.gz", "application/gzip"),
            ("a.json", "application/json"),
            ("a.foo", "text/x-foo; charset=koi8-r"),
            ("a.md", "text/plain; charset=utf-8"),
            ("a", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("b.d/a", "application/octet-stream"),
            ("a.unknown", "application/octet-stream"),
        ];
        for (path, expected) in rows {
            assert_eq!(content_type(path.as_bytes(), &settings), expected, "{path}");
        }
        settings.charset = None;
        assert_eq!(content_type(b"a.txt", &settings), "text/plain");
    }
}
