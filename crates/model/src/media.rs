//! The media type of a file by its extension.

use std::path::Path;

/// Extensions of what people put on a web server.
const TYPES: [(&str, &str); 30] = [
    ("avif", "image/avif"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// The media type by the extension; bytes of unknown kind where it says nothing.
pub(crate) fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(extension))
        .map_or("application/octet-stream", |(_, media)| media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_have_types() {
        let rows = [
            ("/x/index.HTML", "text/html; charset=utf-8"),
            ("a.tar.gz", "application/gzip"),
            ("a.json", "application/json"),
            ("a", "application/octet-stream"),
            ("a.unknown", "application/octet-stream"),
        ];
        for (path, expected) in rows {
            assert_eq!(media_type(Path::new(path)), expected, "{path}");
        }
    }
}
