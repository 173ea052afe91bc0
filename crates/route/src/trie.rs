//! A radix trie over path bytes with parameter edges; its nodes lie in one arena.

use std::collections::VecDeque;
use std::ops::Range;

/// One step of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Token {
    /// This byte.
    Byte(u8),
    /// A whole segment that is not empty.
    Parameter,
}

/// A range of the site's list of routes, in the order they are to be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl List {
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// What a pattern leads to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Goal {
    /// Routes for paths that end here.
    pub(crate) whole: List,
    /// Routes for paths that start so.
    pub(crate) start: List,
    /// Place of `whole` among all of the trie; the lowest is tried first.
    pub(crate) rank: u32,
}

/// Marks a link that leads nowhere.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    /// Bytes that follow the byte or parameter that led here, in `labels`.
    label: Range<u32>,
    /// Children by next byte: `jumps[children + (byte - first)]` if that is below `width`.
    children: u32,
    first: u8,
    width: u16,
    parameter: u32,
    /// The nearest node above that has routes for paths that start so.
    above: u32,
    /// The lowest rank here or below.
    lowest: u32,
    goal: Goal,
}

/// Patterns and where they lead.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    labels: Vec<u8>,
    jumps: Vec<u32>,
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descent<'t> {
    trie: &'t Trie,
    node: &'t Node,
    whole: bool,
}

impl Trie {
    #[inline]
    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(wide(at))
    }

    #[inline]
    fn child(&self, node: &Node, byte: u8) -> Option<&Node> {
        let place = byte.wrapping_sub(node.first);
        if u16::from(place) >= node.width {
            return None;
        }
        let jump = self.jumps.get(wide(node.children) + usize::from(place))?;
        self.node(*jump)
    }

    /// What is left of `path` behind the node's label.
    #[inline]
    fn after_label<'p>(&self, node: &Node, path: &'p [u8]) -> Option<&'p [u8]> {
        if node.label.start == node.label.end {
            return Some(path);
        }
        let label = self.labels.get(wide(node.label.start)..wide(node.label.end))?;
        path.strip_prefix(label)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Follows `path` along bytes as far as it goes.
    #[inline]
    pub(crate) fn descend(&self, path: &[u8]) -> Option<Descent<'_>> {
        let mut node = self.nodes.first()?;
        let mut rest = self.after_label(node, path)?;
        while let Some((&byte, after)) = rest.split_first() {
            let Some(child) = self.child(node, byte) else { break };
            let Some(after) = self.after_label(child, after) else { break };
            (node, rest) = (child, after);
        }
        Some(Descent { trie: self, node, whole: rest.is_empty() })
    }

    /// The best pattern for the whole of `path`, parameters included, of rank `floor` or behind.
    pub(crate) fn best(&self, path: &[u8], floor: u32) -> Option<Goal> {
        let root = self.nodes.first()?;
        let rest = self.after_label(root, path)?;
        let mut best = None;
        self.visit(root, rest, floor, &mut best);
        best
    }

    /// Each node is visited once at most, however many ways lead through the trie; the recursion is
    /// as deep as a pattern has parameters.
    fn visit(&self, node: &Node, path: &[u8], floor: u32, best: &mut Option<Goal>) {
        let (mut node, mut rest) = (node, path);
        while best.is_none_or(|best| node.lowest < best.rank) {
            let Some((&byte, after)) = rest.split_first() else {
                if !node.goal.whole.is_empty() && node.goal.rank >= floor {
                    *best = Some(node.goal);
                }
                return;
            };
            let literal = self.child(node, byte);
            let literal = literal.and_then(|child| Some((child, self.after_label(child, after)?)));
            (node, rest) = match (literal, self.after_parameter(node, rest)) {
                (Some(literal), Some((child, behind))) => {
                    self.visit(child, behind, floor, best);
                    literal
                }
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => return,
            };
        }
    }

    /// The node behind the parameter that may stand here, and what is left of `path` behind it.
    #[inline]
    fn after_parameter<'p>(&self, node: &Node, path: &'p [u8]) -> Option<(&Node, &'p [u8])> {
        let child = self.node(node.parameter)?;
        let end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
        // A parameter is never empty.
        let behind = if end == 0 { None } else { path.get(end..) };
        Some((child, self.after_label(child, behind?)?))
    }
}

impl<'t> Descent<'t> {
    /// Routes for paths that end where this one does.
    #[inline]
    pub(crate) const fn whole(&self) -> List {
        if self.whole { self.node.goal.whole } else { List { start: 0, end: 0 } }
    }

    /// Routes for paths that start as this one does, the longest start first.
    #[inline]
    pub(crate) fn starts(&self) -> impl Iterator<Item = List> + use<'t> {
        let trie = self.trie;
        let mut next = Some(self.node);
        std::iter::from_fn(move || {
            let node = next?;
            next = trie.node(node.above);
            Some(node.goal.start)
        })
    }
}

/// A node to be made.
struct Plan {
    patterns: Range<usize>,
    depth: usize,
    link: Link,
    above: u32,
}

enum Link {
    Root,
    Jump(usize),
    Parameter(u32),
}

impl Trie {
    /// Builds the trie; a pattern stands there once.
    pub(crate) fn build(mut patterns: Vec<(Vec<Token>, Goal)>) -> Self {
        patterns.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut trie = Self::default();
        let mut plans = VecDeque::new();
        if !patterns.is_empty() {
            let patterns = 0..patterns.len();
            plans.push_back(Plan { patterns, depth: 0, link: Link::Root, above: NOWHERE });
        }
        // Breadth first: siblings lie side by side, and no chain of patterns deepens a recursion.
        while let Some(plan) = plans.pop_front() {
            trie.add(&patterns, &plan, &mut plans);
        }
        trie.sum_ranks();
        trie
    }

    fn add(&mut self, all: &[(Vec<Token>, Goal)], plan: &Plan, plans: &mut VecDeque<Plan>) {
        let at = narrow(self.nodes.len());
        match plan.link {
            Link::Root => {}
            Link::Jump(slot) => {
                if let Some(jump) = self.jumps.get_mut(slot) {
                    *jump = at;
                }
            }
            Link::Parameter(parent) => {
                if let Some(parent) = self.nodes.get_mut(wide(parent)) {
                    parent.parameter = at;
                }
            }
        }
        let patterns = all.get(plan.patterns.clone()).unwrap_or_default();
        let label = self.add_label(patterns, plan.depth);
        let depth = plan.depth + wide(label.end - label.start);
        let ended = patterns.first().filter(|(tokens, _)| tokens.len() == depth);
        let goal = ended.map(|&(_, goal)| goal);
        let first = plan.patterns.start + usize::from(goal.is_some());
        let goal = goal.unwrap_or_default();
        let above = if goal.start.is_empty() { plan.above } else { at };
        let mut node = Node {
            label,
            children: narrow(self.jumps.len()),
            first: 0,
            width: 0,
            parameter: NOWHERE,
            above: plan.above,
            lowest: if goal.whole.is_empty() { NOWHERE } else { goal.rank },
            goal,
        };
        let mut start = first;
        while start < plan.patterns.end {
            let token = token_at(all, start, depth);
            let same = all.get(start..plan.patterns.end).unwrap_or_default();
            let end =
                start + same.partition_point(|(tokens, _)| tokens.get(depth) == token.as_ref());
            let link = match token {
                Some(Token::Byte(byte)) => {
                    if node.width == 0 {
                        node.first = byte;
                    }
                    node.width = u16::from(byte - node.first) + 1;
                    let slot = wide(node.children) + usize::from(byte - node.first);
                    self.jumps.resize(slot + 1, NOWHERE);
                    Link::Jump(slot)
                }
                _ => Link::Parameter(at),
            };
            plans.push_back(Plan { patterns: start..end, depth: depth + 1, link, above });
            start = end;
        }
        self.nodes.push(node);
    }

    /// Stores the bytes that all of the sorted patterns share from `depth` on.
    fn add_label(&mut self, patterns: &[(Vec<Token>, Goal)], depth: usize) -> Range<u32> {
        let start = narrow(self.labels.len());
        if let (Some((first, _)), Some((last, _))) = (patterns.first(), patterns.last()) {
            for (a, b) in first.iter().zip(last).skip(depth) {
                match (a, b) {
                    (Token::Byte(a), Token::Byte(b)) if a == b => self.labels.push(*a),
                    _ => break,
                }
            }
        }
        start..narrow(self.labels.len())
    }

    /// Children stand behind their parents, so one pass from the end knows every subtree.
    fn sum_ranks(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get(at) else { continue };
            let children = wide(node.children)..wide(node.children) + usize::from(node.width);
            let children = self.jumps.get(children).unwrap_or_default();
            let below = children.iter().chain([&node.parameter]);
            let below = below.filter_map(|&child| self.node(child)).map(|child| child.lowest);
            let lowest = below.fold(node.lowest, u32::min);
            if let Some(node) = self.nodes.get_mut(at) {
                node.lowest = lowest;
            }
        }
    }
}

fn token_at(all: &[(Vec<Token>, Goal)], at: usize, depth: usize) -> Option<Token> {
    all.get(at).and_then(|(tokens, _)| tokens.get(depth)).copied()
}

#[inline]
#[expect(
    clippy::as_conversions,
    reason = "u32 to usize never loses bits on the 32- and 64-bit targets we build for"
)]
pub(crate) const fn wide(value: u32) -> usize {
    value as usize
}

/// Saturates, which turns an arena of more than 4 Gi entries into links that lead nowhere.
pub(crate) fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(NOWHERE)
}
