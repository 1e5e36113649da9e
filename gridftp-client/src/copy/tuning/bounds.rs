//! `Setting` and `Bounds`: the numbers of streams and files at once, and those that may be tried.

/// One of both numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knob {
    Streams,
    Files,
}

/// Data connections, and the files that they serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Data connections of one file.
    pub(crate) streams: u32,
    /// Files at once.
    pub(crate) files: u32,
}

impl Setting {
    pub(super) fn connections(self) -> u32 {
        self.streams.saturating_mul(self.files)
    }

    pub(super) fn of(self, knob: Knob) -> u32 {
        match knob {
            Knob::Streams => self.streams,
            Knob::Files => self.files,
        }
    }

    pub(super) fn with(self, knob: Knob, value: u32) -> Self {
        match knob {
            Knob::Streams => Self {
                streams: value,
                ..self
            },
            Knob::Files => Self {
                files: value,
                ..self
            },
        }
    }
}

/// The settings that may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) least: Setting,
    pub(crate) most: Setting,
    /// Data connections of all files at most.
    pub(crate) connections: u32,
}

impl Bounds {
    /// The setting within the bounds; files give way to streams where all connections are too many.
    pub(crate) fn hold(&self, setting: Setting) -> Setting {
        let streams = setting.streams.max(self.least.streams);
        let streams = streams.min(self.most.streams).max(1);
        let most = self.most.files.min(self.connections / streams).max(1);
        Setting {
            streams,
            files: setting.files.max(self.least.files).min(most),
        }
    }

    /// Lowers the files at once to the most that a server takes.
    pub(super) fn refuse(&mut self, most: u32) {
        for setting in [&mut self.least, &mut self.most] {
            setting.files = setting.files.min(most);
        }
    }
}
