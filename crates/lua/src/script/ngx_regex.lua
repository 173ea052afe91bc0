-- `ngx.re`: the functions of the module `regex`, called as OpenResty calls them.
local _, ngx = ...

local core = require("regex").core
local pairs, tostring = pairs, tostring

-- Names may be there twice without being asked for.
local function known(options)
  return options and options:gsub("[JD]", "") or ""
end

-- Where a search begins: places below 1 are the first.
local function start(place)
  local from = place and place.pos or 1
  return from < 1 and 1 or from
end

ngx.re = {}

function ngx.re.match(text, pattern, options, place, into)
  local groups, from, to = core.match(tostring(text), pattern, known(options), start(place))
  if not groups then
    return nil, from
  end
  if place then
    place.pos = to + 1
  end
  if into then
    for key, group in pairs(groups) do
      into[key] = group
    end
    return into
  end
  return groups
end

function ngx.re.find(text, pattern, options, place, group)
  text, options = tostring(text), known(options)
  local begun = start(place)
  local from, to = core.find(text, pattern, options, begun, group)
  if not from then
    return nil, nil, to
  end
  if place then
    local _, last = core.find(text, pattern, options, begun)
    place.pos = last + 1
  end
  return from, to
end

function ngx.re.gmatch(text, pattern, options)
  options = known(options)
  local found, problem = core.find("", pattern, options)
  if not found and problem then
    return nil, problem
  end
  return core.matches(tostring(text), pattern, options)
end

function ngx.re.sub(text, pattern, replacement, options)
  return core.replace(text, pattern, replacement, known(options), 1)
end

function ngx.re.gsub(text, pattern, replacement, options)
  return core.replace(text, pattern, replacement, known(options), math.huge)
end
