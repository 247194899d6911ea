import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import com.alibaba.fastjson2.JSON;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/** Compiles and evaluates expressions (lines of JSON strings) with the filter module on the class path. */
public class Table {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<Map<String, String>> messages = new ArrayList<>();
        for (Object message : JSON.parseArray(in.readLine())) {
            Map<String, String> properties = new HashMap<>();
            ((Map<?, ?>) message).forEach((name, value) -> properties.put((String) name, (String) value));
            messages.add(properties);
        }
        String line;
        StringBuilder out = new StringBuilder();
        while ((line = in.readLine()) != null) {
            String sql = (String) JSON.parse(line);
            Map<String, String> row = new java.util.LinkedHashMap<>();
            row.put("sql", sql);
            try {
                Expression expression = FilterFactory.INSTANCE.get("SQL92").compile(sql);
                StringBuilder results = new StringBuilder();
                for (Map<String, String> message : messages) {
                    results.append(evaluate(expression, message));
                }
                row.put("results", results.toString());
            } catch (Exception e) {
                row.put("error", e.getMessage());
            }
            out.append(JSON.toJSONString(row)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static char evaluate(Expression expression, Map<String, String> message) {
        try {
            Object value = expression.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return message.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return new HashMap<>(message);
                }
            });
            return value == null ? '?' : (Boolean) value ? 'T' : 'F';
        } catch (Throwable e) {
            return 'E';
        }
    }
}
