-- `ngx.shared`: the stores of the configuration, by name.
local native, ngx = ...

local calls = native.store
local error, pairs, setmetatable, tostring, type = error, pairs, setmetatable, tostring, type

-- Longest key, as OpenResty has it.
local LONGEST = 65535

-- A key as text; nil and what is wrong with it.
local function key_of(key)
  if key == nil then
    return nil, "nil key"
  end
  key = tostring(key)
  if key == "" then
    return nil, "empty key"
  elseif #key > LONGEST then
    return nil, "key too long"
  end
  return key
end

local VALUES = { string = true, number = true, boolean = true, ["nil"] = true }

local methods = {}

-- By store, what the program calls it.
local objects = setmetatable({}, { __mode = "k" })

local function object_of(dict)
  return objects[dict] or error("bad \"zone\" argument: call it with a colon, as in dict:get(key)", 3)
end

function methods.get(dict, key)
  local object, name, problem = object_of(dict), key_of(key)
  if not name then
    return nil, problem
  end
  local value, flags, stale = calls.get(object, name)
  if value == nil and flags then
    return nil, flags
  elseif value == nil or stale then
    return nil
  end
  return value, flags ~= 0 and flags or nil
end

function methods.get_stale(dict, key)
  local object, name, problem = object_of(dict), key_of(key)
  if not name then
    return nil, problem
  end
  local value, flags, stale = calls.get(object, name)
  if value == nil then
    return nil, flags
  end
  return value, flags ~= 0 and flags or nil, stale
end

-- Of a store: whether a key has to be absent or present, and whether others may go for it.
local function setter(when, room)
  return function(dict, key, value, seconds, flags)
    local object, name, problem = object_of(dict), key_of(key)
    if not name then
      return nil, problem
    elseif not VALUES[type(value)] then
      return nil, "bad value type"
    elseif seconds and seconds < 0 then
      error("bad \"exptime\" argument", 2)
    end
    if value == nil and when == "absent" then
      return nil, "attempt to add or replace nil values"
    end
    local good, more = calls.set(object, name, value, seconds, flags or 0, when, room)
    if not good then
      return false, more, false
    end
    return true, nil, more or false
  end
end

methods.set = setter("always", "evict")
methods.safe_set = setter("always", "refuse")
methods.add = setter("absent", "evict")
methods.safe_add = setter("absent", "refuse")
methods.replace = setter("present", "evict")

function methods.delete(dict, key)
  local object, name, problem = object_of(dict), key_of(key)
  if not name then
    return nil, problem
  end
  calls.delete(object, name)
  return true
end

function methods.incr(dict, key, by, first, seconds)
  local object, name, problem = object_of(dict), key_of(key)
  if not name then
    return nil, problem
  elseif type(by) ~= "number" then
    error("bad argument #2 to 'incr' (number expected, got " .. type(by) .. ")", 2)
  end
  local sum, more = calls.incr(object, name, by, first, seconds)
  if not sum then
    return nil, more
  end
  return sum, nil, more
end

local function pusher(place)
  return function(dict, key, value)
    local object, name, problem = object_of(dict), key_of(key)
    if not name then
      return nil, problem
    elseif type(value) ~= "string" and type(value) ~= "number" then
      return nil, "bad value type"
    end
    return calls.push(object, name, value, place)
  end
end

local function popper(place)
  return function(dict, key)
    local object, name, problem = object_of(dict), key_of(key)
    if not name then
      return nil, problem
    end
    return calls.pop(object, name, place)
  end
end

methods.lpush, methods.rpush = pusher("left"), pusher("right")
methods.lpop, methods.rpop = popper("left"), popper("right")

for name, call in pairs({ llen = calls.len, ttl = calls.ttl, expire = calls.expire }) do
  methods[name] = function(dict, key, ...)
    local object, text, problem = object_of(dict), key_of(key)
    if not text then
      return nil, problem
    end
    return call(object, text, ...)
  end
end

function methods.flush_all(dict)
  calls.flush(object_of(dict))
end

function methods.flush_expired(dict, most)
  return calls.sweep(object_of(dict), most)
end

function methods.get_keys(dict, most)
  return calls.keys(object_of(dict), most or 1024)
end

function methods.capacity(dict)
  return (calls.room(object_of(dict)))
end

function methods.free_space(dict)
  local all, used = calls.room(object_of(dict))
  return all - used
end

local class = { __index = methods }

ngx.shared = setmetatable({}, {
  __index = function(shared, name)
    local object = calls.open(name)
    if not object then
      return nil
    end
    local dict = setmetatable({}, class)
    objects[dict] = object
    shared[name] = dict
    return dict
  end,
})
