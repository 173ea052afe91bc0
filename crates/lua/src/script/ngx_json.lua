-- The modules `cjson` and `cjson.safe`.
local native, ngx = ...

local error, type = error, type
local preload = package.preload
local null = ngx.null

local function new()
  local array_meta, empty_meta, empty = {}, {}, {}
  local empty_is_object = true

  local function encode(value)
    return native.json_encode(value, null, empty_is_object and 0 or 1, empty, array_meta, empty_meta)
  end

  local function decode(text)
    if type(text) ~= "string" then
      return nil, "bad argument #1 to 'decode' (string expected, got " .. type(text) .. ")"
    end
    return native.json_decode(text, null)
  end

  local function same(value)
    return value
  end

  return {
    null = null,
    empty_array = empty,
    array_mt = array_meta,
    empty_array_mt = empty_meta,
    _NAME = "cjson",
    _VERSION = "2.1.0.14",
    new = new,
    encode = encode,
    decode = decode,
    encode_empty_table_as_object = function(value)
      if value ~= nil then
        empty_is_object = value and value ~= "off"
      end
      return empty_is_object
    end,
    -- What has one answer here.
    encode_max_depth = same,
    decode_max_depth = same,
    encode_keep_buffer = same,
    encode_number_precision = same,
    encode_sparse_array = same,
    encode_invalid_numbers = same,
    decode_invalid_numbers = same,
    decode_array_with_array_mt = same,
  }
end

preload["cjson.safe"] = function()
  local safe = new()
  safe._NAME = "cjson.safe"
  return safe
end

preload.cjson = function()
  local function strict()
    local module = new()
    local encode, decode = module.encode, module.decode
    module.encode = function(value)
      local text, problem = encode(value)
      if not text then
        error(problem, 2)
      end
      return text
    end
    module.decode = function(text)
      local value, problem = decode(text)
      if value == nil then
        error(problem, 2)
      end
      return value
    end
    module.new = strict
    return module
  end
  return strict()
end
