-- `silly.encoding.base64`.
local native = ...

return {
  encode = native.base64_encode,
  decode = native.base64_decode,
  urlsafe_encode = native.url_encode,
  urlsafe_decode = native.url_decode,
}
