//! A report before it has a form: headings, texts, tables, charts. Markdown and HTML are made from it.

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Document {
    pub(crate) title: String,
    /// A line below the title.
    pub(crate) subtitle: String,
    pub(crate) blocks: Vec<Block>,
}

/// One part of a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    /// A heading; the title is level 1.
    Heading(u8, String),
    Text(String),
    /// What a reader must not miss.
    Headline(String),
    List(Vec<String>),
    Table(Table),
    /// Charts that stand side by side where there is room.
    Charts(Vec<Chart>),
    /// Long text that is only shown when asked for, under its title.
    Folded(String, String),
}

/// A drawing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    /// Its file name without an ending.
    pub(crate) name: String,
    pub(crate) caption: String,
    /// The `svg` element.
    pub(crate) svg: String,
}

/// A table; the first column names the row, all others hold figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

/// How a cell is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    /// A dash where there is no figure.
    pub(crate) fn maybe(text: Option<String>) -> Self {
        Self::new(text.unwrap_or_else(|| "–".to_owned()))
    }
}

impl Table {
    pub(crate) fn new<const N: usize>(columns: [&str; N]) -> Self {
        Self { columns: columns.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// A table of names and values.
    pub(crate) fn facts(rows: Vec<(String, String)>) -> Self {
        let mut table = Self::new(["", ""]);
        table.rows =
            rows.into_iter().map(|(name, value)| vec![Cell::new(name), Cell::new(value)]).collect();
        table
    }
}

impl Document {
    pub(crate) fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    pub(crate) fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.push(Block::Heading(level, text.into()));
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.push(Block::Text(text.into()));
    }

    /// Every chart, for who writes them into files of their own.
    pub(crate) fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.blocks.iter().flat_map(|block| match block {
            Block::Charts(charts) => charts.as_slice(),
            _ => &[],
        })
    }
}
