//! Beginning where another process ends: its sockets, or those of a service manager.

use sluice_model::Style;
use sluice_net::succession::{Channel, predecessor};
use sluice_net::{PidFile, sockets_of_service_manager};

use super::{Failure, Supervisor, lost};
use crate::flaw::plain;
use crate::heritage::{Answer, Heritage, Upgrades, await_gift};
use crate::voice::Voice;

/// What was there before this process.
pub(super) struct Origin {
    /// To the process whose place this one takes, until it has.
    line: Option<Channel>,
    problems: Vec<String>,
    heritage: Heritage,
}

impl Origin {
    /// To be called before any thread is started.
    pub(super) fn find() -> Result<Self, Failure> {
        let (sockets, problems) = sockets_of_service_manager();
        let line = predecessor().map_err(|error| lost("no way to the old process", &error))?;
        Ok(Self { line, problems, heritage: Heritage::of_service_manager(sockets) })
    }

    /// Takes the sockets; how many upgrades there were before.
    pub(super) fn take(&mut self, voice: &Voice) -> Result<(Heritage, Option<Upgrades>), Failure> {
        self.problems.iter().for_each(|problem| voice.warn(problem));
        match &self.line {
            None => Ok((std::mem::take(&mut self.heritage), None)),
            Some(line) => {
                let (heritage, upgrades) = Heritage::receive(line).map_err(|problem| {
                    Failure::Runtime(format!("error: cannot take the sockets over: {problem}\n"))
                })?;
                Ok((heritage, Some(upgrades)))
            }
        }
    }

    /// Tells the old process that this one cannot take its place.
    pub(super) fn excuse(&self, failure: &Failure) {
        let Some(line) = &self.line else { return };
        let reason = match failure {
            Failure::Config(error) => error.render(Style::Plain),
            Failure::Runtime(text) => text.clone(),
        };
        // It sees in any case that we end.
        let _ = Answer::Failed(reason).send(line);
    }
}

impl Supervisor {
    /// All is open and served: from here on the sockets are ours alone.
    pub(super) fn take_over(&mut self, origin: &mut Origin) -> Result<(), Failure> {
        if let Some(line) = origin.line.take() {
            // If the old process is gone, there is nobody to agree with.
            let _ = Answer::Ready(self.estate.inherited()).send(&line);
            await_gift(&line);
            self.estate.keep_files();
            self.shelf.settle();
        }
        self.heritage.settle();
        if let Some(path) = &self.pid_file_path {
            let written = PidFile::write(path).map_err(|error| {
                let path = path.display();
                Failure::Runtime(format!("error: cannot write {path}: {}\n", plain(&error)))
            })?;
            self.pid_file = Some(written);
        }
        Ok(())
    }
}
