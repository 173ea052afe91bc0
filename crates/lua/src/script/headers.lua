-- The methods of `request` or `response` that are used most, so that LuaJIT can compile what calls them: functions of
-- C over its stack stop it, those of its own library for C do not. Called once for each of the two objects, so that
-- each has functions of its own, for which traces are made apart.
local object, native = ...

local ffi = native.ffi
local string_of = ffi.string
-- Names of fields have numbers, by which they are found sooner.
local number_of, longest, left = native.number, native.longest, native.most
local numbers = {}
local host = ffi.cast("void *", native.host)
local lent = ffi.new("struct { const char *start; size_t length; }")
local find = ffi.cast("int (*)(void *, uint32_t, void *)", ffi.cast("void *", native.find))
local replace = ffi.cast("int (*)(void *, uint32_t, const char *, size_t)", ffi.cast("void *", native.replace))
-- What knows all cases and all errors; called from the last line, it sees the script as its caller.
local header, set_header = object.header, object.set_header
local type = type

-- A number for a name of a field, if it is a short one and there are not too many of them: they may come from clients.
local function learn(name)
  if left == 0 or type(name) ~= "string" or #name > longest then
    return nil
  end
  local number = number_of(name)
  if number then
    numbers[name] = number
    left = left - 1
  end
  return number
end

function object.header(self, name)
  local number = numbers[name] or learn(name)
  if number then
    local found = find(host, number, lent)
    if found == 1 then
      -- Returned in a step of its own: LuaJIT would not compile this for callers that it has not compiled.
      local value = string_of(lent.start, lent.length)
      return value
    elseif found == 0 then
      return nil
    end
  end
  return header(self, name)
end

function object.set_header(self, name, value)
  if type(value) == "string" then
    local number = numbers[name] or learn(name)
    if number and replace(host, number, value, #value) == 1 then
      return
    end
  end
  return set_header(self, name, value)
end
