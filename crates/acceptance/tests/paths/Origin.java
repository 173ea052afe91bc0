// Tomcat, told to take whatever a client may send.
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;

public class Origin {
    static HttpServlet saying(String text) {
        return new HttpServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
                response.getOutputStream().write(text.getBytes());
            }
        };
    }

    public static void main(String[] words) throws Exception {
        Logger.getLogger("").setLevel(Level.SEVERE);
        String[] address = words[0].split(":");
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(words[1]);
        tomcat.setPort(Integer.parseInt(address[1]));
        Connector connector = tomcat.getConnector();
        connector.setProperty("address", address[0]);
        connector.setProperty("relaxedPathChars", "\\|{}^`\"<>[]");
        connector.setEncodedSolidusHandling("decode");
        connector.setAllowBackslash(true);
        Context context = tomcat.addContext("", words[1]);
        Tomcat.addServlet(context, "admin", saying("the secret of the admin"));
        context.addServletMappingDecoded("/admin/*", "admin");
        Tomcat.addServlet(context, "open", saying("open"));
        context.addServletMappingDecoded("/", "open");
        tomcat.start();
        tomcat.getServer().await();
    }
}
