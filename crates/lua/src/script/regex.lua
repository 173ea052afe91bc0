-- Regular expressions: `regex.match(text, pattern, options)` and what is made of it. A pattern that is none is an error;
-- `regex.core` has the same with nil and a word instead, for `ngx.re`.
local native = ...
local native_match, native_find = native.regex_match, native.regex_find
local concat, error, type, tostring, sub = table.concat, error, type, tostring, string.sub

-- Where to look on after a match: an empty one must not be found again.
local function after(from, to)
  if to < from then
    return from + 1
  end
  return to + 1
end

-- What stands in the place of a match: pieces of text, and numbers of groups.
local function parse(template)
  local parts, start = {}, 1
  while true do
    local dollar = template:find("$", start, true)
    if not dollar then
      parts[#parts + 1] = sub(template, start)
      return parts
    end
    parts[#parts + 1] = sub(template, start, dollar - 1)
    local rest = sub(template, dollar + 1)
    local digits, braced, name = rest:match("^%d+"), rest:match("^{(%d+)}"), rest:match("^{([%a_][%w_]*)}")
    if rest:sub(1, 1) == "$" then
      parts[#parts + 1] = "$"
      start = dollar + 2
    elseif digits then
      parts[#parts + 1] = tonumber(digits)
      start = dollar + 1 + #digits
    elseif braced or name then
      parts[#parts + 1] = braced and tonumber(braced) or { name }
      start = dollar + 3 + #(braced or name)
    else
      return nil, "the replacement \"" .. template .. "\": after a dollar comes $, the number of a group or {its name}"
    end
  end
end

local function fill(parts, groups)
  local out = {}
  for index = 1, #parts do
    local part = parts[index]
    if type(part) == "number" then
      out[index] = groups[part] or ""
    elseif type(part) == "table" then
      out[index] = groups[part[1]] or ""
    else
      out[index] = part
    end
  end
  return concat(out)
end

local function replace(text, pattern, replacement, options, most)
  local change
  if type(replacement) == "function" then
    change = function(groups)
      local made = replacement(groups)
      return made and tostring(made) or ""
    end
  else
    local parts, problem = parse(tostring(replacement))
    if not parts then
      return nil, nil, problem
    end
    change = function(groups)
      return fill(parts, groups)
    end
  end
  text = tostring(text)
  local out, count, start, copied = {}, 0, 1, 1
  while count < most do
    local groups, from, to = native_match(text, pattern, options, start)
    if not groups then
      if from then
        return nil, nil, from
      end
      break
    end
    out[#out + 1] = sub(text, copied, from - 1)
    out[#out + 1] = change(groups)
    count, copied = count + 1, to + 1
    start = after(from, to)
  end
  if count == 0 then
    return text, 0
  end
  out[#out + 1] = sub(text, copied)
  return concat(out), count
end

local function matches(text, pattern, options)
  local start = 1
  return function()
    if not start then
      return nil
    end
    local groups, from, to = native_match(text, pattern, options, start)
    start = groups and after(from, to)
    return groups, not groups and from or nil
  end
end

local regex = { core = { match = native_match, find = native_find, replace = replace, matches = matches } }

-- The first result, or an error for whoever called.
local function good(first, second, ...)
  if first == nil and second then
    error(second, 3)
  end
  return first, second, ...
end

function regex.match(text, pattern, options, start)
  return (good(native_match(text, pattern, options, start)))
end

function regex.find(text, pattern, options, start, group)
  return good(native_find(text, pattern, options, start, group))
end

function regex.gmatch(text, pattern, options)
  good(native_find("", pattern, options))
  return matches(text, pattern, options)
end

function regex.sub(text, pattern, replacement, options)
  local made, count, problem = replace(text, pattern, replacement, options, 1)
  good(made, problem)
  return made, count
end

function regex.gsub(text, pattern, replacement, options)
  local made, count, problem = replace(text, pattern, replacement, options, math.huge)
  good(made, problem)
  return made, count
end

-- What stands between the matches.
function regex.split(text, pattern, options)
  local parts, copied, start = {}, 1, 1
  while true do
    local from, to = good(native_find(text, pattern, options, start))
    if not from then
      parts[#parts + 1] = sub(text, copied)
      return parts
    end
    if to >= from then
      parts[#parts + 1] = sub(text, copied, from - 1)
      copied = to + 1
    end
    start = after(from, to)
  end
end

return regex
