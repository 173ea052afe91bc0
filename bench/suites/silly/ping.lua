local tcp = require "silly.net.tcp"
local readline, write = tcp.readline, tcp.write

tcp.listen("127.0.0.1:{port}", function(fd, addr)
    while true do
        local line = readline(fd, "\r\n")
        if not line then
            return
        end
        if line == "PING\r\n" then
            write(fd, "+PONG\r\n")
        elseif line == "save\r\n" then
            write(fd, "*2\r\n$4\r\nsave\r\n$0\r\n\r\n")
        elseif line == "appendonly\r\n" then
            write(fd, "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n")
        end
    end
end)
