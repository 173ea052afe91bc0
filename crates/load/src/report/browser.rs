//! The page in a real browser: it must fit a phone, follow the dark mode and not be blank.
//!
//! Runs where `chromium` is installed. Set `SLUICE_REPORT_SHOTS` to a folder to keep the pictures.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::sample;

fn browser() -> Option<&'static str> {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(works)
}

fn folder() -> PathBuf {
    let folder = std::env::var_os("SLUICE_REPORT_SHOTS").map_or_else(
        || std::env::temp_dir().join(format!("sluice-shots-{}", std::process::id())),
        PathBuf::from,
    );
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(browser: &str, profile: &Path, arguments: &[String]) -> String {
    let common = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"];
    let output = Command::new(browser)
        .args(common)
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A window cannot be narrower than 500 pixels, so a phone is a frame of its width in a page.
fn framed(page: &Path, width: u32, height: u32) -> String {
    format!(
        "<!DOCTYPE html><html><body style=\"margin:0\"><iframe id=\"f\" src=\"file://{}\" \
         style=\"width:{width}px;height:{height}px;border:0\"></iframe><script>\n\
         document.getElementById('f').onload = function () {{\n\
         var d = this.contentDocument.documentElement;\n\
         document.body.setAttribute('data-fit', d.scrollWidth + ' ' + this.contentWindow.innerWidth\n\
         + ' ' + getComputedStyle(this.contentDocument.body).backgroundColor); }};\n\
         </script></body></html>",
        page.display()
    )
}

struct Look {
    name: &'static str,
    width: u32,
    dark: bool,
}

const LOOKS: [Look; 3] = [
    Look { name: "desktop", width: 1280, dark: false },
    Look { name: "phone", width: 390, dark: false },
    Look { name: "dark", width: 1280, dark: true },
];

#[test]
fn the_page_fits_every_screen() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium is installed");
        return;
    };
    let folder = folder();
    let profile = std::env::temp_dir().join(format!("sluice-profile-{}", std::process::id()));
    let page = folder.join("report.html");
    std::fs::write(&page, super::suite(&sample::results(10)).unwrap().html).unwrap();
    for look in LOOKS {
        let frame = folder.join(format!("{}.html", look.name));
        std::fs::write(&frame, framed(&page, look.width, 2600)).unwrap();
        let picture = folder.join(format!("{}.png", look.name));
        let mut arguments = vec![
            "--allow-file-access-from-files".to_owned(),
            format!("--window-size={},2600", look.width.max(500)),
        ];
        if look.dark {
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let url = format!("file://{}", frame.display());
        let mut shot = arguments.clone();
        shot.extend([format!("--screenshot={}", picture.display()), url.clone()]);
        run(browser, &profile, &shot);
        // A blank page of this size compresses to a few kilobytes.
        let size = std::fs::metadata(&picture).map_or(0, |file| file.len());
        assert!(size > 50_000, "{}: the picture has {size} bytes", look.name);
        arguments.extend(["--dump-dom".to_owned(), url]);
        let dom = run(browser, &profile, &arguments);
        let fit = dom.split("data-fit=\"").nth(1).and_then(|rest| rest.split('"').next());
        let fit = fit.unwrap_or_else(|| panic!("{}: no measure in\n{dom}", look.name));
        let mut parts = fit.splitn(3, ' ');
        let mut number = || parts.next().unwrap().parse::<u32>().unwrap();
        let (content, window) = (number(), number());
        assert_eq!(window, look.width, "{}: {fit}", look.name);
        assert!(content <= window, "{} overflows: {fit}", look.name);
        let background = if look.dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
        assert_eq!(parts.next(), Some(background), "{}", look.name);
    }
    let _ = std::fs::remove_dir_all(profile);
    if std::env::var_os("SLUICE_REPORT_SHOTS").is_none() {
        let _ = std::fs::remove_dir_all(folder);
    }
}
