package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Scenarios that need other settings of the broker than the usual ones.
func registerSettings() {
	part("trace", trace)                 // traceTopicEnable=true
	part("transaction", transaction)     // transactionTimeOut and transactionCheckInterval of a second or so
	part("filter-sql", filterSQL)        // enablePropertyFilter=true
	part("filter-sql-pull", filterPulls) // the same
}

// trace: what producers and consumers report of a message stands in the trace topic.
func trace(r *run) string {
	const traceTopic = "RMQ_SYS_TRACE_TOPIC"
	topic, group := r.topic("traced"), r.group("traced")
	config := func() *primitive.TraceConfig {
		return &primitive.TraceConfig{GroupName: r.group("tracer"), NamesrvAddrs: []string{r.namesrv()}}
	}
	reports := &received{}
	r.pushConsumer(r.group("reports"), traceTopic, everything, reports.handle)
	from := r.producer(producer.WithTrace(config()))
	ids := map[string]bool{}
	for _, body := range numbered("traced", 5) {
		ids[sent(from, text(topic, body).WithKeys([]string{"traced-key"})).MsgID] = true
	}
	got := &received{}
	r.pushConsumer(group, topic, everything, got.handle, consumer.WithTrace(config()))
	got.await(r, 5, 30*time.Second)
	kinds := map[string]map[string]bool{"Pub": {}, "SubBefore": {}, "SubAfter": {}}
	collect := func() {
		for _, report := range reports.all() {
			for _, line := range strings.Split(string(report.Body), "\x02") {
				fields := strings.Split(line, "\x01")
				for _, field := range fields {
					if kind, known := kinds[fields[0]]; known && ids[field] {
						kind[field] = true
					}
				}
			}
		}
	}
	counts := func() string {
		return fmt.Sprintf("%d sent, %d before, %d after", len(kinds["Pub"]), len(kinds["SubBefore"]), len(kinds["SubAfter"]))
	}
	r.await("the reports on 5 messages", 30*time.Second, func() bool {
		collect()
		return counts() == "5 sent, 5 before, 5 after"
	}, func() any { return counts() })
	return counts()
}

// decisions answers for local transactions by the first word of the body.
type decisions struct {
	lock   sync.Mutex
	checks map[string]int
}

func (d *decisions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch word, _, _ := strings.Cut(string(message.Body), "-"); word {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decisions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.lock.Lock()
	defer d.lock.Unlock()
	body := string(message.Body)
	d.checks[body]++
	switch word, _, _ := strings.Cut(body, "-"); {
	case word == "checked":
		return primitive.CommitMessageState
	case word == "twice" && d.checks[body] >= 2:
		return primitive.CommitMessageState
	case word == "refused":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decisions) checked(body string) int {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.checks[body]
}

// transaction: committed at once, rolled back at once, and decided when the broker asks, at the first or the second time.
func transaction(r *run) string {
	topic := r.topic("transaction")
	listener := &decisions{checks: map[string]int{}}
	from, err := rocketmq.NewTransactionProducer(listener, r.producerOptions()...)
	must("a transaction producer", err)
	must("its start", from.Start())
	r.closing(from.Shutdown)
	half := func(body string) {
		message := text(topic, body).WithTag("tag").WithKeys([]string{"key"})
		message.WithProperty("user", "value")
		result, err := from.SendMessageInTransaction(background, message)
		must("a half message", err)
		equal("the status of a half message", primitive.SendOK, result.Status)
	}
	for i := 0; i < 5; i++ {
		for _, word := range []string{"rollback", "refused", "commit", "checked", "twice"} {
			half(fmt.Sprintf("%s-%d", word, i))
		}
	}
	got := &received{}
	r.pushConsumer(r.group("transaction"), topic, everything, got.handle)
	var expected []string
	for i := 0; i < 5; i++ {
		for _, word := range []string{"commit", "checked", "twice"} {
			expected = append(expected, fmt.Sprintf("%s-%d", word, i))
		}
	}
	// A check that crosses a late decision can commit a message twice, with Java's broker as well.
	distinct := func() []string {
		known := map[string]bool{}
		var bodies []string
		for _, body := range got.bodies() {
			if !known[body] {
				known[body] = true
				bodies = append(bodies, body)
			}
		}
		return bodies
	}
	r.await("15 different messages", 60*time.Second, func() bool { return len(distinct()) >= 15 }, func() any { return distinct() })
	r.await("the checks of what is to be refused", 60*time.Second, func() bool {
		for i := 0; i < 5; i++ {
			if listener.checked(fmt.Sprintf("refused-%d", i)) == 0 {
				return false
			}
		}
		return true
	}, func() any { return "not all" })
	equal("bodies", sorted(expected), distinct())
	for i := 0; i < 5; i++ {
		that(listener.checked(fmt.Sprintf("twice-%d", i)) >= 2, "committed before the second check")
	}
	for _, message := range got.all() {
		equal("topic", topic, message.Topic)
		equal("tag", "tag", message.GetTags())
		equal("keys", "key", message.GetKeys())
		equal("user property", "value", message.GetProperty("user"))
	}
	return "15 of 25 came: 5 at once, 5 after a check, 5 after two"
}

func sql(expression string) consumer.MessageSelector {
	return consumer.MessageSelector{Type: consumer.SQL92, Expression: expression}
}

// sendColoured sends messages with a number and, most of them, a colour, and returns the bodies of those that a predicate wants.
func sendColoured(from rocketmq.Producer, topic string, count int, wanted func(number int, colour string) bool) []string {
	var expected []string
	for i := 0; i < count; i++ {
		colour := []string{"red", "green", "blue", ""}[i%4]
		body := fmt.Sprintf("coloured-%04d", i)
		message := text(topic, body).WithTag("tag")
		message.WithProperty("number", fmt.Sprint(i))
		if colour != "" {
			message.WithProperty("colour", colour)
		}
		sent(from, message)
		if wanted(i, colour) {
			expected = append(expected, body)
		}
	}
	return expected
}

// filterSQL: subscriptions by user properties.
func filterSQL(r *run) string {
	topic := r.topic("sql")
	from := r.producer()
	cases := []struct {
		expression string
		wanted     func(number int, colour string) bool
	}{
		{"number BETWEEN 10 AND 39 AND colour IN ('red', 'blue')", func(n int, c string) bool { return n >= 10 && n <= 39 && (c == "red" || c == "blue") }},
		{"colour IS NULL OR number < 4", func(n int, c string) bool { return c == "" || n < 4 }},
		{"NOT (colour = 'green') AND number >= 30", func(n int, c string) bool { return c != "" && c != "green" && n >= 30 }},
	}
	// The groups are there before the messages: the broker may note at storing which of them want a message.
	sent(from, text(topic, "warm"))
	got := make([]*received, len(cases))
	for i, each := range cases {
		got[i] = &received{}
		r.pushConsumer(r.group(fmt.Sprint(i)), topic, sql(each.expression), got[i].handle)
	}
	expected := make([][]string, len(cases))
	first := true
	for i, each := range cases {
		if first {
			expected[i] = sendColoured(from, topic, 60, each.wanted)
			first = false
			continue
		}
		for number := 0; number < 60; number++ {
			colour := []string{"red", "green", "blue", ""}[number%4]
			if each.wanted(number, colour) {
				expected[i] = append(expected[i], fmt.Sprintf("coloured-%04d", number))
			}
		}
	}
	for i, each := range cases {
		want := len(expected[i])
		if strings.Contains(each.expression, "IS NULL") {
			expected[i] = sorted(append(expected[i], "warm"))
			want++
		}
		got[i].await(r, want, 40*time.Second)
		equal("bodies of "+each.expression, expected[i], got[i].bodies())
	}
	return fmt.Sprintf("3 expressions: %d, %d and %d of 61 messages", len(expected[0]), len(expected[1]), len(expected[2]))
}

// filterPulls: a pull with an expression of its own.
func filterPulls(r *run) string {
	topic := r.topic("sqlpull")
	from := r.producer(bySelf())
	broker := r.brokerName()
	var results []*primitive.SendResult
	for i, body := range numbered("sqlpull", 20) {
		message := text(topic, body)
		message.WithProperty("number", fmt.Sprint(i))
		results = append(results, sent(from, manualQueue(message, broker, 2)))
	}
	r.awaitReadable(topic, results)
	reader := r.pullConsumer(r.group("sqlpull"), topic, sql("number > 14"))
	result, err := reader.PullFrom(background, &primitive.MessageQueue{Topic: topic, BrokerName: broker, QueueId: 2}, 0, 32)
	must("a pull", err)
	equal("status", primitive.PullFound, result.Status)
	equal("bodies", numbered("sqlpull", 20)[15:], bodies(result.GetMessageExts()))
	equal("next", int64(20), result.NextBeginOffset)
	return "5 of 20 messages by one pull"
}
