//! What makes two answers the same content.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use sluice_coding::Coding;
use sluice_filter::{Behind, ResponseContext, Source, Whole};
use sluice_message::{BodyLength, FieldId, Fields, Method};

use super::store::Print;
use crate::altered::has_directive;

/// Makes prints that nobody outside can predict.
#[derive(Debug, Default)]
pub(super) struct Prints([RandomState; 2]);

/// Parts of content that its print is made of; the rest is compared.
const SAMPLES: usize = 8;
const SAMPLE: usize = 32;

impl Prints {
    /// The print of the answer's content in this coding, if it can be said when it is the same again.
    pub(super) fn of(&self, context: &ResponseContext<'_>, coding: Coding) -> Option<Print> {
        if has_directive(&context.response.fields, b"no-store") {
            return None;
        }
        match (context.whole.bytes(), context.behind) {
            // What filters behind this one make of it is not known.
            (_, Behind::Alters) => None,
            (Some(bytes), _) => Some(self.of_content(bytes, coding)),
            // Whoever looks on has to see it pass.
            (None, Behind::Watches) => None,
            (None, Behind::Nothing) => self.of_tag(context, coding),
        }
    }

    fn of_content(&self, bytes: &[u8], coding: Coding) -> Print {
        let step = bytes.len() / SAMPLES;
        let samples = (0..SAMPLES).map(|number| {
            let rest = bytes.get(number * step..).unwrap_or_default();
            rest.get(..SAMPLE).unwrap_or(rest)
        });
        let length = bytes.len().to_le_bytes();
        self.print(&[b"content", coding.name().as_bytes(), &length], samples)
    }

    /// By the validator that the origin has given its content, for this very request (RFC 9110, 8.8).
    fn of_tag(&self, context: &ResponseContext<'_>, coding: Coding) -> Option<Print> {
        let (request, fields) = (context.request, &context.response.fields);
        let good = matches!(request.method, Method::Get | Method::Head)
            && context.source == Source::Origin
            && context.response.status == 200
            && !is_personal(&request.fields, fields);
        let (validator, length) = validator(context).filter(|_| good)?;
        let notes = &context.notes;
        let target = notes.target().map_or([0xff; 8], usize::to_le_bytes);
        let parts = [
            b"tag",
            coding.name().as_bytes(),
            context.gateway.route().as_bytes(),
            notes.variant().unwrap_or_default().as_bytes(),
            &target,
            request.fields.slice(request.authority),
            request.fields.value(FieldId::Host).unwrap_or_default(),
            request.fields.slice(request.target),
            fields.value(FieldId::ContentType).unwrap_or_default(),
            validator,
            &length,
        ];
        let varies = varies(&request.fields, fields)?;
        Some(self.print(&parts, varies.into_iter()))
    }

    fn print<'p>(&self, parts: &[&'p [u8]], more: impl Iterator<Item = &'p [u8]> + Clone) -> Print {
        let [first, second] = self.0.each_ref().map(|state| {
            let mut hasher = state.build_hasher();
            for part in parts.iter().copied().chain(more.clone()) {
                hasher.write_usize(part.len());
                hasher.write(part);
            }
            hasher.finish()
        });
        // Half of the second is enough.
        Print(first, u32::try_from(second >> 32).unwrap_or(0))
    }
}

/// What the origin says of the content: a tag, or when it was changed and how long it is.
fn validator<'c>(context: &'c ResponseContext<'_>) -> Option<(&'c [u8], [u8; 8])> {
    let fields = &context.response.fields;
    let length = match context.response.body {
        BodyLength::Known(length) => Some(length),
        _ => None,
    };
    if let Some(tag) = fields.values_of(b"etag").next() {
        let tag = tag.strip_prefix(b"W/").unwrap_or(tag);
        // HEAD is asked for the same content, of which nothing comes.
        return (tag.len() > 2 && tag.starts_with(b"\"")).then_some((tag, [0; 8]));
    }
    // Pages for several users may have been changed at the same second.
    let anybody = context.request.fields.value(FieldId::Cookie).is_none();
    let changed = fields.values_of(b"last-modified").next().filter(|_| anybody)?;
    Some((changed, length?.to_le_bytes()))
}

/// Whether the answer is for this client alone: RFC 9111, 3 and 3.5.
fn is_personal(asked: &Fields, fields: &Fields) -> bool {
    let private = fields.values_of(b"cache-control").any(|value| {
        let mut members = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        members.any(|it| it.get(..7).is_some_and(|it| it.eq_ignore_ascii_case(b"private")))
    });
    let known = asked.values_of(b"authorization").next().is_some();
    private
        || fields.values_of(b"set-cookie").next().is_some()
        || known && !has_directive(fields, b"public")
}

/// What the client sent of the fields that the answer depends on; `None` if it depends on everything.
fn varies<'f>(asked: &'f Fields, fields: &'f Fields) -> Option<Vec<&'f [u8]>> {
    let names = fields.values_of(b"vary").flat_map(|value| value.split(|&byte| byte == b','));
    let mut all = Vec::new();
    for name in names.map(<[u8]>::trim_ascii) {
        if name == b"*" {
            return None;
        }
        if !name.eq_ignore_ascii_case(b"accept-encoding") {
            all.push(name);
            all.extend(asked.values_of(name));
        }
    }
    Some(all)
}

/// The content as something that is kept.
pub(super) fn kept(whole: Whole<'_>) -> Option<sluice_filter::SharedBytes> {
    match whole {
        Whole::Unknown => None,
        Whole::Bytes(bytes) => Some(bytes.to_vec().into()),
        Whole::Shared(bytes) => Some(bytes.clone()),
    }
}
