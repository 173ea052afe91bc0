-- Texts in other clothes: URIs, base64, digests.
local native, ngx, core = ...

local error, ipairs, pairs, tostring, type = error, ipairs, pairs, tostring, type
local concat = table.concat
local hex = core.hex

-- Values that stand for themselves where OpenResty takes texts.
local function text(value)
  if value == nil then
    return ""
  elseif type(value) == "boolean" then
    return tostring(value)
  end
  return value
end

ngx.escape_uri = function(value, kind)
  return native.escape_uri(text(value), kind)
end

ngx.unescape_uri = function(value)
  return native.unescape_uri(text(value))
end

function ngx.encode_args(args)
  if type(args) ~= "table" then
    error("bad argument #1 to 'encode_args' (table expected, got " .. type(args) .. ")", 2)
  end
  local parts = {}
  local function add(name, value)
    local kind = type(value)
    if value == true then
      parts[#parts + 1] = name
    elseif kind == "string" or kind == "number" then
      parts[#parts + 1] = name .. "=" .. native.escape_uri(value)
    elseif value ~= false then
      error("attempt to use " .. kind .. " as query arg value", 3)
    end
  end
  for key, value in pairs(args) do
    if type(key) ~= "string" and type(key) ~= "number" then
      error("attempt to use a non-string key in the \"args\" option table", 2)
    end
    local name = native.escape_uri(key)
    if type(value) == "table" then
      for _, one in ipairs(value) do
        add(name, one)
      end
    else
      add(name, value)
    end
  end
  return concat(parts, "&")
end

function ngx.decode_args(args, most)
  return core.arguments(args, most)
end

function ngx.encode_base64(value, no_padding)
  local coded = native.base64_encode(text(value))
  return no_padding and (coded:gsub("=+$", "")) or coded
end

-- With or without the signs that fill up the end.
function ngx.decode_base64(value)
  if type(value) ~= "string" then
    error("string argument only", 2)
  end
  local bare = value:gsub("=+$", "")
  return (native.base64_decode(bare .. ("="):rep(-#bare % 4)))
end

package.preload["ngx.base64"] = function()
  return {
    encode_base64url = function(value)
      if type(value) ~= "string" then
        return nil, "must provide a string"
      end
      return native.url_encode(value)
    end,
    decode_base64url = function(value)
      if type(value) ~= "string" then
        return nil, "must provide a string"
      end
      local plain = native.url_decode(value)
      if not plain then
        return nil, "invalid input"
      end
      return plain
    end,
  }
end

function ngx.md5_bin(value)
  return native.hash("md5", text(value))
end

function ngx.md5(value)
  return hex(native.hash("md5", text(value)))
end

function ngx.sha1_bin(value)
  return native.hash("sha1", text(value))
end

function ngx.hmac_sha1(key, value)
  return native.hmac(text(key), text(value), "sha1")
end

function ngx.crc32_short(value)
  return native.crc32(text(value))
end

ngx.crc32_long = ngx.crc32_short

local QUOTED = {
  ["\0"] = "\\0", ["\b"] = "\\b", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\26"] = "\\Z",
  ["\\"] = "\\\\", ["'"] = "\\'", ['"'] = '\\"',
}

function ngx.quote_sql_str(value)
  return "'" .. text(value):gsub("[%z\b\n\r\t\26\\'\"]", QUOTED) .. "'"
end

function ngx.get_phase()
  return core.phase(core.state())
end

local facts = native.facts()

ngx.worker = {
  pid = function()
    return facts.pid
  end,
  id = function()
    return facts.worker
  end,
  count = function()
    return facts.workers
  end,
  exiting = function()
    return false
  end,
}

ngx.config = {
  subsystem = "http",
  debug = false,
  nginx_version = 1027001,
  ngx_lua_version = 10028,
  prefix = function()
    return "./"
  end,
}
