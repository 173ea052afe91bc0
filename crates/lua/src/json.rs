//! `silly.encoding.json`: texts of RFC 8259 and values of scripts.

use serde_json::{Map, Number, Value};

use crate::frame::{Frame, Kind, Reply, native};

/// Deepest nesting of what is encoded; what is decoded has the same bound in its parser.
const DEPTH: usize = 128;

native!(native_encode, encode);
native!(native_decode, decode);

/// `encode(value, null, ...)`: its text, or nil and an error. `null` is what stands for null. For scripts that know
/// `cjson` there follow whether a table without anything in it is an object (0) or an array (1), what stands for an
/// empty array, and the metatables of arrays and of what is an array if it is empty.
fn encode(frame: &Frame<'_>) -> Reply {
    // An argument that is absent could not be told from what lies above it.
    if frame.count() < EMPTY_IS {
        frame.push_nil();
    }
    let text = to_value(frame, 1, DEPTH)
        .and_then(|value| serde_json::to_vec(&value).map_err(|error| error.to_string()));
    match text {
        Ok(text) => frame.push_bytes(&text),
        Err(error) => return frame.fail(error.as_bytes()),
    }
    Reply::Values(1)
}

fn to_value(frame: &Frame<'_>, index: i32, depth: usize) -> Result<Value, String> {
    Ok(match frame.kind(index) {
        Kind::Nil => Value::Null,
        Kind::Boolean => Value::Bool(frame.truth(index)),
        Kind::Number => number(frame.number(index).unwrap_or(0.0))?,
        Kind::String => Value::String(text(frame, index)?),
        Kind::Table | Kind::Other if frame.is_same(index, 2) => Value::Null,
        Kind::Table if depth == 0 => return Err("the value is nested too deeply".to_owned()),
        Kind::Table => table(frame, index, depth - 1)?,
        _ => return Err("functions, tasks and objects have no text".to_owned()),
    })
}

fn text(frame: &Frame<'_>, index: i32) -> Result<String, String> {
    let bytes = frame.bytes(index).unwrap_or_default();
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is no UTF-8".to_owned())
}

/// Whole numbers are written without a point, as far as they are exact.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "whole and below 2^53")]
fn number(number: f64) -> Result<Value, String> {
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        return Ok(Value::Number(Number::from(number as i64)));
    }
    let found = Number::from_f64(number).map(Value::Number);
    found.ok_or_else(|| "there is no text for a number that is none, or infinite".to_owned())
}

/// A table with a first element is an array, every other one an object.
fn table(frame: &Frame<'_>, index: i32, depth: usize) -> Result<Value, String> {
    if !frame.reserve(8) {
        return Err("the value is nested too deeply".to_owned());
    }
    let table = frame.absolute(index);
    let elements = match frame.kind(EMPTY_IS) {
        Kind::Nil => has_first(frame, table).then(|| frame.elements(table)),
        _ => elements_of_cjson(frame, table)?,
    };
    if let Some(elements) = elements {
        let mut list = Vec::new();
        for element in 1..=elements {
            frame.push_element(table, i32::try_from(element).map_err(|_| "too many elements")?);
            let value = to_value(frame, -1, depth);
            frame.pop();
            list.push(value?);
        }
        return Ok(Value::Array(list));
    }
    let mut fields = Map::new();
    frame.push_nil();
    while frame.next(table) {
        let field = field(frame, depth);
        frame.pop();
        let (name, value) = field.inspect_err(|_| frame.pop())?;
        fields.insert(name, value);
    }
    Ok(Value::Object(fields))
}

/// Where `encode` has what it needs for `cjson`.
const EMPTY_IS: i32 = 3;
const EMPTY_ARRAY: i32 = 4;
const ARRAY_META: i32 = 5;
const EMPTY_META: i32 = 6;

fn has_first(frame: &Frame<'_>, table: i32) -> bool {
    frame.push_element(table, 1);
    let has = frame.kind(-1) != Kind::Nil;
    frame.pop();
    has
}

/// How many elements an array has, in the eyes of `cjson`; `None` if the table is an object. Holes are null, unless
/// there are more of them than of others.
fn elements_of_cjson(frame: &Frame<'_>, table: i32) -> Result<Option<usize>, String> {
    const FEW: usize = 10;
    if frame.is_same(table, EMPTY_ARRAY) {
        return Ok(Some(0));
    }
    let mut as_empty = frame.integer(EMPTY_IS) == Some(1);
    if frame.push_meta(table) {
        let is_array = frame.is_same(-1, ARRAY_META);
        as_empty |= frame.is_same(-1, EMPTY_META);
        frame.pop();
        if is_array {
            return Ok(Some(frame.elements(table)));
        }
    }
    let (mut count, mut greatest) = (0_usize, 0_usize);
    frame.push_nil();
    while frame.next(table) {
        let place = match frame.kind(-2) {
            Kind::Number => frame.number(-2).and_then(place_of),
            _ => None,
        };
        frame.pop();
        let Some(place) = place else {
            frame.pop();
            return Ok(None);
        };
        count += 1;
        greatest = greatest.max(place);
    }
    if greatest > FEW && greatest > count.saturating_mul(2) {
        return Err("Cannot serialise table: excessively sparse array".to_owned());
    }
    Ok((count > 0 || as_empty).then_some(greatest))
}

/// A number as the place of an element.
fn place_of(number: f64) -> Option<usize> {
    let whole = number.fract() == 0.0 && (1.0..2_147_483_648.0).contains(&number);
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and in range"
    )]
    whole.then_some(number as usize)
}

/// The key and value on top.
fn field(frame: &Frame<'_>, depth: usize) -> Result<(String, Value), String> {
    let name = match frame.kind(-2) {
        Kind::String => text(frame, -2)?,
        // Not turned into a string where it is: it is what the next key is found by.
        Kind::Number => number(frame.number(-2).unwrap_or(0.0))?.to_string(),
        _ => return Err("a key is neither a string nor a number".to_owned()),
    };
    Ok((name, to_value(frame, -1, depth)?))
}

/// `decode(text, null)`: its value, or nil and an error. `null` is what null becomes, nil if there is none.
fn decode(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.bytes(1) else {
        return frame.raise("json.decode: a string is expected");
    };
    let value: Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        Err(error) => return frame.fail(error.to_string().as_bytes()),
    };
    // An argument that is absent could not be told from what lies above it.
    if frame.count() < 2 {
        frame.push_nil();
    }
    push(frame, &value);
    Reply::Values(1)
}

fn push(frame: &Frame<'_>, value: &Value) {
    // Deeper than the parser allows cannot come; a stack without room is left with nil.
    if !frame.reserve(4) {
        return frame.push_nil();
    }
    match value {
        Value::Null => frame.push_copy(2),
        Value::Bool(value) => frame.push_truth(*value),
        Value::Number(number) => frame.push_number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => frame.push_bytes(text.as_bytes()),
        Value::Array(list) => {
            frame.push_table(i32::try_from(list.len()).unwrap_or(0), 0);
            for (index, value) in (1..).zip(list) {
                push(frame, value);
                frame.set_element(index);
            }
        }
        Value::Object(fields) => {
            frame.push_table(0, i32::try_from(fields.len()).unwrap_or(0));
            for (name, value) in fields {
                push(frame, value);
                frame.set_field(name.as_bytes());
            }
        }
    }
}
