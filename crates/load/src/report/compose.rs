//! The report of a suite, part by part.

use super::caveats;
use super::chart::{Axis, Plot, Scale, Series, nines_label};
use super::conclusion;
use super::document::{Block, Cell, Chart, Document, Table, Tone};
use super::summary::{Merged, Pairing, Point, connections, pairings, points};
use crate::figures;
use crate::results::{Case, Results, Run};
use crate::statistics::{Ratio, Verdict};

/// The percentiles that tables show.
const SHOWN: [f64; 6] = [50.0, 75.0, 90.0, 99.0, 99.9, 100.0];

/// The whole report.
pub(crate) fn of_suite(results: &Results) -> Document {
    let mut document = Document {
        title: results.title.clone(),
        subtitle: format!(
            "{} · {} · {}",
            figures::date(results.started_unix_ms),
            results.tool,
            results.state.word()
        ),
        ..Document::default()
    };
    let disturbances = caveats::disturbances(results);
    if !disturbances.is_empty() {
        let reasons = disturbances.join(", ");
        document.push(Block::Headline(format!("Not to be published: {reasons}.")));
    }
    if !results.about.is_empty() {
        document.text(&results.about);
    }
    conclusions(&mut document, results);
    let run = results.cases.iter().filter(|case| case.skipped.is_none() && !case.runs.is_empty());
    for case in run {
        one_case(&mut document, case);
    }
    skipped(&mut document, results);
    environment(&mut document, results);
    raw(&mut document, results);
    document
}

fn conclusions(document: &mut Document, results: &Results) {
    let (headlines, sentences) = (conclusion::headlines(results), conclusion::sentences(results));
    if !sentences.is_empty() {
        document.heading(2, "Conclusion");
        headlines.into_iter().for_each(|line| document.push(Block::Headline(line)));
        document.text(
            "Medians of the ratios of paired rounds, with 95 % bootstrap intervals in parentheses; the \
             figures beside a ratio are those of the round it is of. A ratio whose interval holds 1 is \
             within noise. Servers and load generator share one \
             machine: the kernel's work per request is the same for all, and the rate is often the \
             load generator's. CPU time and user instructions per request are the server's own.",
        );
        document.push(Block::List(sentences));
    }
    document.heading(2, "Caveats");
    let mut caveats = results.notes.clone();
    caveats.extend(caveats::of_suite(results));
    match caveats.is_empty() {
        true => document.text("None found: like replies, no errors, a quiet machine."),
        false => document.push(Block::List(caveats)),
    }
}

fn one_case(document: &mut Document, case: &Case) {
    document.heading(2, format!("Case {}: {}", case.name, case.title));
    if !case.about.is_empty() {
        document.text(&case.about);
    }
    let settings: Vec<String> =
        case.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    document.text(settings.join(" · "));
    let pairs = pairings(case);
    if !pairs.is_empty() {
        document.heading(3, "Comparison");
        document.push(Block::Table(comparison(case, &pairs)));
    }
    let points = points(case);
    for server in &case.servers {
        let mine: Vec<&Point<'_>> = points.iter().filter(|point| point.server == server).collect();
        if !mine.is_empty() {
            document.heading(3, format!("Results of {server}"));
            document.push(Block::Table(server_table(case, &mine)));
        }
    }
    document.push(Block::Charts(charts(case, &points)));
}

fn comparison(case: &Case, pairs: &[Pairing<'_>]) -> Table {
    let mut table = Table::new([
        "setting",
        "req/s",
        "peer req/s",
        "ratio (95 %)",
        "verdict",
        "CPU/req",
        "peer CPU/req",
        "ratio (95 %)",
        "verdict",
        "p99",
        "peer p99",
        "ratio (95 %)",
        "verdict",
    ]);
    table.rows = pairs.iter().map(|pair| comparison_row(case, pair)).collect();
    table
}

fn comparison_row(case: &Case, pair: &Pairing<'_>) -> Vec<Cell> {
    let (own, peer) = (&pair.subject, &pair.peer);
    let several = case.servers.len() > 2 || connections(case).len() < 2;
    let count = figures::count(own.connections.into());
    let setting = match several {
        true => format!("{count} · {} / {}", own.server, peer.server),
        false => format!("{count} connections"),
    };
    let mut row = vec![Cell::new(setting)];
    let rates = (Some(own.rate), Some(peer.rate));
    row.extend(compared(pair.rate, rates, figures::rate));
    row.push(match own.is_ramps() && peer.is_ramps() {
        true => Cell::new("the ramp's"),
        false => verdict(pair.rate, Verdict::Above),
    });
    row.extend(compared(pair.cpu, (own.cpu, peer.cpu), figures::time));
    row.push(verdict(pair.cpu, Verdict::Below));
    let p99 = |point: &Point<'_>| point.latency.backed(99.0);
    row.extend(compared(pair.p99, (p99(own), p99(peer)), figures::time));
    row.push(verdict(pair.p99, Verdict::Below));
    row
}

/// Two figures and their ratio with its interval. The figures are those of the round that the ratio is
/// of, so that they fit it; without a ratio they are the medians of each side.
fn compared(
    ratio: Option<Ratio>,
    (own, peer): (Option<f64>, Option<f64>),
    write: fn(f64) -> String,
) -> [Cell; 3] {
    let Some(ratio) = ratio else {
        return [Cell::maybe(own.map(write)), Cell::maybe(peer.map(write)), Cell::maybe(None)];
    };
    let interval = ratio.interval.map_or_else(String::new, |interval| {
        format!(" ({:.2} to {:.2})", interval.low, interval.high)
    });
    [
        Cell::new(write(ratio.middle.0)),
        Cell::new(write(ratio.middle.1)),
        Cell::new(format!("{:.2}{interval}", ratio.median)),
    ]
}

/// The word for a ratio, when `better` is the good side of 1.
fn verdict(ratio: Option<Ratio>, better: Verdict) -> Cell {
    match ratio.map(|ratio| ratio.verdict()) {
        None => Cell::maybe(None),
        Some(Verdict::WithinNoise) => Cell::new("within noise"),
        Some(Verdict::Undecided) => Cell::new("too few rounds"),
        Some(side) if side == better => Cell::toned("ahead", Tone::Good),
        Some(_) => Cell::toned("behind", Tone::Bad),
    }
}

fn server_table(case: &Case, points: &[&Point<'_>]) -> Table {
    let open = points.iter().any(|point| point.uncorrected.is_some());
    let instructions = points.iter().find_map(|point| case.instructions.get(point.server));
    // Errors stand beside the rate: percentiles are those of answers only.
    let mut table = Table::new(["connections", "req/s", "errors", "mean"]);
    table.columns.extend(SHOWN.map(figures::percentile));
    if open {
        table.columns.extend(["sustained", "uncorrected p99"].map(str::to_owned));
    }
    table.columns.extend(["CPU/req", "machine CPU/req"].map(str::to_owned));
    if instructions.is_some() {
        table.columns.push("instructions/req".to_owned());
    }
    table.columns.push("bytes/s".to_owned());
    for point in points {
        let mut row = latency_cells(point);
        if open {
            row.extend(open_cells(point));
        }
        row.push(Cell::maybe(point.cpu.map(figures::time)));
        row.push(Cell::maybe(point.machine_cpu.map(figures::time)));
        row.extend(instructions.map(|count| Cell::new(figures::count(figures::whole(*count)))));
        row.push(bytes_cell(point));
        table.rows.push(row);
    }
    table
}

fn latency_cells(point: &Point<'_>) -> Vec<Cell> {
    let mut row = vec![
        Cell::new(figures::count(point.connections.into())),
        Cell::new(figures::rate(point.rate)),
        errors_cell(point),
        Cell::new(figures::time(point.latency.mean)),
    ];
    let shown = SHOWN.map(|percentile| point.latency.backed(percentile).map(figures::time));
    row.extend(shown.map(Cell::maybe));
    row
}

fn open_cells(point: &Point<'_>) -> [Cell; 2] {
    let missed = point.outcomes.iter().any(|outcome| outcome.sustained == Some(false));
    let sustained = if missed { Cell::toned("no", Tone::Bad) } else { Cell::new("yes") };
    let uncorrected = point.uncorrected.as_ref().and_then(|latency| latency.percentile(99.0));
    [sustained, Cell::maybe(uncorrected.map(figures::time))]
}

fn errors_cell(point: &Point<'_>) -> Cell {
    let errors = point.errors.total();
    let tone = if errors > 0 { Tone::Bad } else { Tone::Plain };
    Cell::toned(figures::count(errors), tone)
}

fn bytes_cell(point: &Point<'_>) -> Cell {
    let bytes: u64 = point.outcomes.iter().map(|outcome| outcome.bytes_received).sum();
    let seconds: f64 = point.outcomes.iter().map(|outcome| outcome.seconds).sum();
    Cell::new(figures::bytes(figures::float(bytes) / seconds.max(1e-9)))
}

const TIME: Axis = Axis { label: "Latency", scale: Scale::Logarithmic, write: figures::time };
const PERCENTILES: Axis = Axis { label: "percentile", scale: Scale::Nines, write: nines_label };

fn charts(case: &Case, points: &[Point<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for connections in connections(case) {
        let chosen = points.iter().filter(|point| point.connections == connections);
        let mut series = Vec::new();
        for point in chosen {
            let colour = colour(case, point.server);
            series.push(curve(point.server.to_owned(), colour, &point.latency));
            let sent = point.uncorrected.as_ref();
            series.extend(sent.map(|latency| {
                let name = format!("{}, uncorrected", point.server);
                Series { dashed: true, ..curve(name, colour, latency) }
            }));
        }
        let title =
            format!("Latency by percentile at {} connections", figures::count(connections.into()));
        let plot = Plot { title: title.clone(), x: PERCENTILES, y: TIME, series };
        charts.push(Chart {
            name: file_name(&format!("{}-latency-{connections}", case.name)),
            caption: title,
            svg: plot.svg(),
        });
    }
    if connections(case).len() > 1 {
        charts
            .push(over_connections(case, points, "Requests per second", |point| Some(point.rate)));
        if points.iter().any(|point| point.cpu.is_some()) {
            charts.push(over_connections(case, points, "CPU time per request", |point| point.cpu));
        }
    }
    charts
}

/// Which colour a server has in every chart of its case.
fn colour(case: &Case, server: &str) -> usize {
    case.servers.iter().position(|name| name == server).unwrap_or(0)
}

fn curve(name: String, colour: usize, latency: &Merged) -> Series {
    Series { name, colour, dashed: false, points: latency.curve() }
}

fn over_connections(
    case: &Case,
    points: &[Point<'_>],
    label: &'static str,
    figure: fn(&Point<'_>) -> Option<f64>,
) -> Chart {
    let of = |server: &String| {
        let mine = points.iter().filter(|point| point.server == server);
        let places = mine.filter_map(|point| Some((f64::from(point.connections), figure(point)?)));
        Series {
            name: server.clone(),
            colour: colour(case, server),
            dashed: false,
            points: places.collect(),
        }
    };
    let write = if label.starts_with("CPU") { figures::time } else { figures::rate };
    let title = format!("{label} over connections");
    let plot = Plot {
        title: title.clone(),
        x: Axis {
            label: "connections",
            scale: Scale::Logarithmic,
            write: |value| figures::count(figures::whole(value)),
        },
        y: Axis { label, scale: Scale::Linear, write },
        series: case.servers.iter().map(of).filter(|series| !series.points.is_empty()).collect(),
    };
    let short = if label.starts_with("CPU") { "cpu" } else { "rate" };
    Chart { name: file_name(&format!("{}-{short}", case.name)), caption: title, svg: plot.svg() }
}

/// A name with nothing in it that a path gives a meaning to.
pub(crate) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    name.chars().map(safe).collect()
}

fn skipped(document: &mut Document, results: &Results) {
    let servers = results
        .servers
        .iter()
        .filter_map(|server| Some(format!("Server {}: {}", server.name, server.skipped.as_ref()?)));
    let cases = results
        .cases
        .iter()
        .filter_map(|case| Some(format!("Case {}: {}", case.name, case.skipped.as_ref()?)));
    let all: Vec<String> = servers.chain(cases).collect();
    if !all.is_empty() {
        document.heading(2, "Left out");
        document.push(Block::List(all));
    }
}

fn environment(document: &mut Document, results: &Results) {
    document.heading(2, "Environment");
    let machine = &results.environment;
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let gib = figures::float(machine.memory_bytes) / 1_073_741_824.0;
    let mut facts = vec![
        fact("CPU", format!("{}, {} cores", machine.cpu, machine.cores)),
        fact("Memory", format!("{gib:.1} GiB")),
        fact("Kernel", machine.kernel.clone()),
        fact("System", machine.system.clone()),
        fact("Load generator", results.tool.clone()),
        fact("Git commit", machine.commit.clone().unwrap_or_else(|| "none".to_owned())),
        fact("Git branch", machine.branch.clone().unwrap_or_else(|| "none".to_owned())),
        fact(
            "Load average",
            format!("{:.2} before, {:.2} after", machine.load_before, machine.load_after),
        ),
        fact("Steal", figures::percent(machine.steal)),
        fact("Quiet", caveats::quiet(results)),
    ];
    let took = results.finished_unix_ms.saturating_sub(results.started_unix_ms) / 1000;
    facts.push(fact("Took", format!("{took} s")));
    document.push(Block::Table(Table::facts(facts)));
    document.heading(3, "Parameters");
    document.push(Block::Table(Table::facts(results.parameters.clone())));
    document.heading(3, "Servers");
    let mut table = Table::new(["server", "version", "address", "CPUs", "command"]);
    for server in results.servers.iter().filter(|server| server.skipped.is_none()) {
        table.rows.push(vec![
            Cell::new(&server.name),
            Cell::maybe(server.version.clone()),
            Cell::maybe(server.url.clone()),
            Cell::maybe(server.cpus.clone()),
            Cell::new(&server.command),
        ]);
    }
    document.push(Block::Table(table));
    for server in &results.servers {
        if let Some(config) = server.config.as_ref().filter(|_| server.skipped.is_none()) {
            let title = format!("Configuration of {}", server.name);
            document.push(Block::Folded(title, config.clone()));
        }
    }
}

fn raw(document: &mut Document, results: &Results) {
    document.heading(2, "Every run");
    let mut table = Table::new([
        "run",
        "case",
        "server",
        "connections",
        "round",
        "req/s",
        "p50",
        "p99",
        "max",
        "CPU/req",
        "steal",
        "busy",
        "others",
        "errors",
    ]);
    for case in &results.cases {
        table.rows.extend(case.runs.iter().map(|run| raw_row(case, run)));
    }
    document.push(Block::Table(table));
    document.text("The figures of each run with its histogram are in results.json and in raw/.");
}

fn raw_row(case: &Case, run: &Run) -> Vec<Cell> {
    let outcome = run.outcome.as_ref();
    let time = |percentile: f64| {
        let micros = outcome.map(|outcome| outcome.latency.percentile(percentile));
        Cell::maybe(micros.map(|micros| figures::time(figures::float(micros))))
    };
    let errors = match (&run.failure, outcome) {
        (Some(_), _) => Cell::toned("failed", Tone::Bad),
        (None, outcome) => {
            Cell::maybe(outcome.map(|outcome| figures::count(outcome.errors.total())))
        }
    };
    vec![
        Cell::new(run.order.to_string()),
        Cell::new(&case.name),
        Cell::new(&run.server),
        Cell::new(figures::count(run.connections.into())),
        Cell::new(run.round.to_string()),
        Cell::maybe(outcome.map(|outcome| figures::rate(outcome.rate))),
        time(50.0),
        time(99.0),
        time(100.0),
        Cell::maybe(run.cpu_micros().map(figures::time)),
        Cell::new(figures::percent(run.noise.steal)),
        Cell::new(figures::percent(run.noise.busy)),
        Cell::new(figures::percent(run.noise.others)),
        errors,
    ]
}
