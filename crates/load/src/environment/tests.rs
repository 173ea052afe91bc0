//! Tests on texts as kernels write them, and on the running process itself.

use super::*;

#[test]
fn the_machine_is_read() {
    let cpuinfo =
        "processor\t: 0\nmodel name\t: AMD EPYC 9R14\nprocessor\t: 1\nmodel name\t: AMD\n";
    assert_eq!(cpu_model(cpuinfo), "AMD EPYC 9R14");
    assert_eq!(
        cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n"),
        "implementer 0x41, part 0xd40"
    );
    assert_eq!(cpu_model(""), "unknown");
    assert_eq!(memory("MemTotal:        8000 kB\nMemFree: 1 kB\n"), 8_192_000);
    assert_eq!(distribution("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
    let seen = Environment::observe(std::path::Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(
        seen.cores >= 1 && seen.memory_bytes > 0 && seen.kernel.starts_with("Linux "),
        "{seen:?}"
    );
}

#[test]
fn steal_and_busy_time_are_shares_of_the_whole() {
    let before = machine_ticks("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1 1\n");
    let after = machine_ticks("cpu  150 0 70 820 50 5 5 20 50 0\ncpu0 1 1 1\n");
    let noise = before.until(&after);
    assert!((noise.steal - 20.0 / 120.0).abs() < 1e-9, "{noise:?}");
    assert!((noise.busy - 80.0 / 120.0).abs() < 1e-9, "{noise:?}");
    assert!((noise.machine_cpu_seconds - 80.0 / ticks_per_second()).abs() < 1e-9);
}

#[test]
fn what_is_not_ours_is_the_others() {
    let noise = Noise { busy: 0.8, machine_cpu_seconds: 4.0, ..Noise::default() };
    for (own, others) in [(0.0, 0.8), (3.0, 0.2), (4.0, 0.0), (4.1, 0.0)] {
        let found = noise.beside(own).others;
        assert!((found - others).abs() < 1e-9, "{own}: {found}");
    }
    assert!(Noise::default().beside(0.0).others.abs() < 1e-9);
}

#[test]
fn a_family_is_added_up() {
    let stat = "7 (a) b) S 3 7 7 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 5 0";
    assert_eq!(process(stat), Some(Process { parent: 3, ticks: 100 }));
    assert_eq!(process("rubbish"), None);
    let family: BTreeMap<u32, Process> = [
        (1, Process { parent: 0, ticks: 1000 }),
        (7, Process { parent: 1, ticks: 5 }),
        (9, Process { parent: 7, ticks: 10 }),
        (11, Process { parent: 9, ticks: 20 }),
        (12, Process { parent: 1, ticks: 40 }),
    ]
    .into();
    assert_eq!(members(&family, 7), [7, 9, 11]);
    assert_eq!(tree_ticks(&family, 7), Some(35));
    assert_eq!(tree_ticks(&family, 99), None);
}

#[test]
fn the_cpu_time_of_this_process_grows_with_its_work() {
    let before = process_cpu(std::process::id()).unwrap();
    let mut sum = 0_u64;
    while process_cpu(std::process::id()).unwrap() < before + 0.02 {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
    assert!(process_cpu(u32::MAX).is_none());
}

#[test]
fn the_first_line_of_a_command_on_either_output() {
    let echo = said(Command::new("sh").args(["-c", "echo; echo two; echo three"]));
    assert_eq!(echo.as_deref(), Some("two"));
    assert_eq!(said(Command::new("sh").args(["-c", "echo x >&2"])).as_deref(), Some("x"));
    assert_eq!(said(&mut Command::new("/no/such/program")), None);
}

#[test]
fn cpu_time_is_known_more_exactly_than_by_ticks() {
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut used = 0.0;
    while used == 0.0 {
        used = process_cpu(busy.id()).unwrap();
    }
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!((used * ticks_per_second()).fract() > 1e-6, "{used}");
}
