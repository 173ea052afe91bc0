-- What the library for strings has from the program instead of LuaJIT, so that it stays within the budget of a task:
-- searches for patterns. Functions that scripts give to `gsub` are called from here, so they can wait.
local native = ...

local next_match, replace = native.pattern_next, native.pattern_replace
local concat, error, sub, tostring, type = table.concat, error, string.sub, tostring, type

string.find = native.string_find
string.match = native.string_match

-- A text, or an error for whoever called.
local function text_of(value, index, name)
  local kind = type(value)
  if kind == "string" then
    return value
  elseif kind == "number" then
    return tostring(value)
  end
  error("bad argument #" .. index .. " to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end

-- What takes the place of a match whose captures these are.
local function substitute(replacement, from, to, ...)
  if not from then
    return from, to
  elseif type(replacement) == "table" then
    return from, to, replacement[(...)]
  end
  return from, to, (replacement(...))
end

local function replace_by(text, pattern, replacement, most)
  text, pattern = text_of(text, 1, "gsub"), text_of(pattern, 2, "gsub")
  local left = most == nil and #text + 1 or tonumber(most)
  if not left then
    error("bad argument #4 to 'gsub' (number expected, got " .. type(most) .. ")", 2)
  end
  local anchored = sub(pattern, 1, 1) == "^"
  if anchored then
    pattern = sub(pattern, 2)
  end
  -- A table is asked for the first capture alone.
  local captures = type(replacement) == "table" and 1 or nil
  local parts, size, count, start, copied = {}, 0, 0, 1, 1
  while count < left do
    local from, to, made = substitute(replacement, next_match(text, pattern, start, anchored, captures))
    if not from then
      if from == false then
        error(to, 2)
      end
      break
    end
    count = count + 1
    if not made then
      made = sub(text, from, to)
    elseif type(made) ~= "string" and type(made) ~= "number" then
      error("invalid replacement value (a " .. type(made) .. ")", 2)
    end
    parts[size + 1], parts[size + 2] = sub(text, copied, from - 1), made
    size, copied = size + 2, to + 1
    -- A match of nothing must not be found again.
    start = to < from and from + 1 or to + 1
    if anchored then
      break
    end
  end
  if count == 0 then
    return text, 0
  end
  parts[size + 1] = sub(text, copied)
  return concat(parts), count
end

function string.gsub(text, pattern, replacement, most)
  local kind = type(replacement)
  if kind == "function" or kind == "table" then
    return replace_by(text, pattern, replacement, most)
  end
  return replace(text, pattern, replacement, most)
end

function string.gmatch(text, pattern)
  text, pattern = text_of(text, 1, "gmatch"), text_of(pattern, 2, "gmatch")
  local start = 1

  local function advance(from, to, ...)
    if not from then
      if from == false then
        error(to, 2)
      end
      return nil
    end
    start = to < from and from + 1 or to + 1
    return ...
  end

  return function()
    return advance(next_match(text, pattern, start))
  end
end
string.gfind = nil
