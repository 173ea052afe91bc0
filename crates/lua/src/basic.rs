//! What scripts ask of the program itself: lines for its log, modules, numbers, its end.

use std::path::{Path, PathBuf};

use sluice_meter::push_log_line;
use sluice_net::files;

use crate::cause;
use crate::frame::{Frame, Kind, Reply, native};
use crate::host::Host;
use crate::settings::{Access, Level};

/// Largest source file.
const SOURCE: usize = 16 << 20;

native!(native_log, log);
native!(native_level, level);
native!(native_set_level, set_level);
native!(native_print, print);
native!(native_source, source);
native!(native_compile, compile);
native!(native_number, number);
native!(native_exit, exit);
native!(native_errors, errors);
native!(native_variables, variables);
native!(native_environment, environment);
native!(native_on_signal, on_signal);
native!(native_facts, facts);
native!(native_memory, memory);
native!(native_overrun, overrun);

/// `log(level, line, traceback | nil)`.
fn log(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    if let (Some(level), Some(line)) = (frame.integer(1).and_then(Level::of), frame.bytes(2))
        && level >= host.level.get()
    {
        match frame.text(3) {
            Some(traceback) => {
                let mut text = Vec::new();
                push_log_line(&mut text, line);
                host.say(level, &(String::from_utf8_lossy(&text) + traceback.as_str()));
            }
            None => host.log(level, line),
        }
    }
    Reply::Values(0)
}

fn level(frame: &Frame<'_>) -> Reply {
    frame.push_number(f64::from(frame.host().level.get().number()));
    Reply::Values(1)
}

fn set_level(frame: &Frame<'_>) -> Reply {
    match frame.integer(1).and_then(Level::of) {
        Some(level) => {
            frame.host().level.set(level);
            Reply::Values(0)
        }
        None => frame.raise("bad argument #1 to 'setlevel': a level is expected"),
    }
}

/// `print(line)`.
fn print(frame: &Frame<'_>) -> Reply {
    frame.host().voice.print(frame.bytes(1).unwrap_or_default().to_vec());
    Reply::Values(0)
}

/// `source(module)`: its compiled chunk and its path, or nil and where it was looked for.
fn source(frame: &Frame<'_>) -> Reply {
    let Some(name) = frame.text(1) else { return frame.raise("a module's name is expected") };
    let relative = name.replace('.', "/");
    let is_inside = relative.split('/').all(|part| !part.is_empty() && !part.contains('\0'));
    if !is_inside {
        return frame.fail(format!("'{name}' is no name of a module").as_bytes());
    }
    let mut said = String::new();
    for directory in directories(frame.host()) {
        for file in [format!("{relative}.lua"), format!("{relative}/init.lua")] {
            let path = directory.join(file);
            match read(&path) {
                Ok(text) => {
                    let mut sources = frame.host().sources.borrow_mut();
                    if !sources.contains(&path) {
                        sources.push(path.clone());
                    }
                    return loaded(frame, &text, &path);
                }
                Err(error) => said.push_str(&format!("\n\t{}: {error}", path.display())),
            }
        }
    }
    frame.fail(said.as_bytes())
}

fn loaded(frame: &Frame<'_>, text: &[u8], path: &Path) -> Reply {
    match frame.push_chunk(without_first_comment(text), &chunk_name(path)) {
        Ok(()) => {
            frame.push_bytes(path.to_string_lossy().as_bytes());
            Reply::Values(2)
        }
        Err(error) => frame.raise(&error),
    }
}

/// Where modules lie: beside the script, and where the settings say.
fn directories(host: &Host) -> Vec<PathBuf> {
    let script = &host.settings.script;
    // One that stands in a configuration lies nowhere.
    let beside = (!script.as_os_str().is_empty()).then(|| files::directory_of(script));
    let mut all: Vec<_> = beside.into_iter().collect();
    all.extend(host.settings.path.iter().cloned());
    all
}

/// A source file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    match files::read_small(path, SOURCE) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(format!("it is larger than {SOURCE} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

/// How a chunk is called in messages.
pub(crate) fn chunk_name(path: &Path) -> String {
    format!("@{}", path.display())
}

/// A file that is a program of its own begins with a line for the kernel. The end of that line stays, so that the
/// others keep their numbers.
pub(crate) fn without_first_comment(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    match text.first() {
        Some(b'#') => {
            let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
            text.get(end..).unwrap_or_default()
        }
        _ => text,
    }
}

/// `compile(text, name)`: a function, or nil and what is wrong with the text.
fn compile(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.bytes(1) else { return frame.raise("a string is expected") };
    let name = frame.text(2).unwrap_or_else(|| "=(load)".to_owned());
    match frame.push_chunk(text, &name) {
        Ok(()) => Reply::Values(1),
        Err(error) => frame.fail(error.as_bytes()),
    }
}

/// A number that was not given out before.
fn number(frame: &Frame<'_>) -> Reply {
    frame.push_count(frame.host().next_number());
    Reply::Values(1)
}

/// `exit(status)`: the end of the program.
fn exit(frame: &Frame<'_>) -> Reply {
    let status = frame.integer(1).unwrap_or(0);
    frame.host().leave(u8::try_from(status & 0xff).unwrap_or(1));
    Reply::Values(0)
}

/// All errors by name.
fn errors(frame: &Frame<'_>) -> Reply {
    frame.push_table(0, 64);
    for (name, text) in cause::all() {
        frame.push_bytes(text.as_bytes());
        frame.set_field(name.as_bytes());
    }
    Reply::Values(1)
}

/// What was given with `--key=value`.
fn variables(frame: &Frame<'_>) -> Reply {
    frame.push_table(0, 0);
    for (name, value) in &frame.host().settings.variables {
        frame.push_bytes(value.as_bytes());
        frame.set_field(name.as_bytes());
    }
    Reply::Values(1)
}

/// `environment(name)`: a variable of the environment, if the script may see it; else nil.
fn environment(frame: &Frame<'_>) -> Reply {
    let Some(name) = frame.text(1) else {
        return frame.raise("bad argument #1 to 'getenv' (string expected)");
    };
    let is_listed = frame.host().settings.env.contains(&name);
    match is_listed.then(|| std::env::var_os(&name)).flatten() {
        Some(value) => frame.push_bytes(value.as_encoded_bytes()),
        None => frame.push_nil(),
    }
    Reply::Values(1)
}

/// `on_signal(function)`: who is told of signals.
fn on_signal(frame: &Frame<'_>) -> Reply {
    if frame.kind(1) != Kind::Function {
        return frame.raise("a function is expected");
    }
    frame.push_copy(1);
    frame.host().on_signal.set(Some(frame.keep()));
    Reply::Values(0)
}

/// What the program is and allows.
fn facts(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    frame.push_table(0, 4);
    frame.push_count(u64::from(std::process::id()));
    frame.set_field(b"pid");
    frame.push_bytes(env!("CARGO_PKG_VERSION").as_bytes());
    frame.set_field(b"version");
    frame.push_truth(host.settings.allows(Access::Files));
    frame.set_field(b"files");
    frame.push_truth(host.settings.allows(Access::Processes));
    frame.set_field(b"processes");
    frame.push_count(u64::try_from(host.worker).unwrap_or(0));
    frame.set_field(b"worker");
    frame.push_count(u64::try_from(host.ports.workers()).unwrap_or(1));
    frame.set_field(b"workers");
    Reply::Values(1)
}

/// Bytes in use and allowed.
fn memory(frame: &Frame<'_>) -> Reply {
    let memory = &frame.host().memory;
    frame.push_count(u64::try_from(memory.used()).unwrap_or(u64::MAX));
    frame.push_count(u64::try_from(memory.limit()).unwrap_or(u64::MAX));
    Reply::Values(2)
}

/// Whether the run is being ended because it took too long.
fn overrun(frame: &Frame<'_>) -> Reply {
    frame.push_truth(frame.host().overrun.get());
    Reply::Values(1)
}
