package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func registerRetry() {
	core("retry-later", retryLater)
	core("retry-dead-letter", retryDeadLetter)
	core("delay-level", delayLevel)
}

// retryLater: each message fails once and comes back after the chosen delay, as the same message.
func retryLater(r *run) string {
	topic, group := r.topic("later"), r.group("later")
	from := r.producer()
	for i := 0; i < 8; i++ {
		message := text(topic, fmt.Sprintf("later-%d", i)).WithTag("tag").WithKeys([]string{"key"})
		message.WithProperty("user", "value")
		sent(from, message)
	}
	r.prepareGroup(group)
	failures, successes := &received{}, &received{}
	var lock sync.Mutex
	known := map[string]bool{}
	handle := func(ctx context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		if body := string(batch[0].Body); !known[body] {
			known[body] = true
			failures.add(batch[0])
			if how, there := primitive.GetConcurrentlyCtx(ctx); there {
				how.DelayLevelWhenNextConsume = 1
			}
			return consumer.ConsumeRetryLater, nil
		}
		successes.add(batch[0])
		return consumer.ConsumeSuccess, nil
	}
	r.pushConsumer(group, topic, everything, handle)
	successes.await(r, 8, 60*time.Second)
	equal("failures", 8, failures.count())
	firsts := map[string]int{}
	for at, message := range failures.all() {
		firsts[string(message.Body)] = at
	}
	shortest := time.Hour
	for at, again := range successes.all() {
		first := firsts[string(again.Body)]
		before := failures.all()[first]
		equal("times before", int32(0), before.ReconsumeTimes)
		equal("times after", int32(1), again.ReconsumeTimes)
		equal("topic shown", topic, again.Topic)
		equal("unique id", before.MsgId, again.MsgId)
		equal("tag", "tag", again.GetTags())
		equal("keys", "key", again.GetKeys())
		equal("user property", "value", again.GetProperty("user"))
		equal("born time", before.BornTimestamp, again.BornTimestamp)
		that(again.GetProperty("ORIGIN_MESSAGE_ID") != "", "the first message's id is not kept")
		if waited := successes.times[at].Sub(failures.times[first]); waited < shortest {
			shortest = waited
		}
	}
	that(shortest >= 900*time.Millisecond, "a message came back after %v already", shortest)
	return fmt.Sprintf("8 messages came back, the fastest after %d ms", shortest.Milliseconds())
}

// retryDeadLetter: after the last attempt a message goes to the group's dead letter topic.
func retryDeadLetter(r *run) string {
	topic, group := r.topic("dead"), r.group("dead")
	from := r.producer()
	sent(from, text(topic, "good"))
	sent(from, text(topic, "bad"))
	r.prepareGroup(group)
	attempts := &received{}
	handle := func(ctx context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if string(batch[0].Body) == "good" {
			return consumer.ConsumeSuccess, nil
		}
		attempts.add(batch[0])
		if how, there := primitive.GetConcurrentlyCtx(ctx); there {
			how.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater, nil
	}
	r.pushConsumer(group, topic, everything, handle, consumer.WithMaxReconsumeTimes(1))
	letters := &received{}
	r.pushConsumer(r.group("letters"), "%DLQ%"+group, everything, letters.handle)
	letters.await(r, 1, 60*time.Second)
	equal("attempts", 2, attempts.count())
	letter := letters.all()[0]
	equal("body", "bad", string(letter.Body))
	equal("topic that it came from", topic, letter.GetProperty("RETRY_TOPIC"))
	equal("times", int32(2), letter.ReconsumeTimes)
	return "2 attempts, then a dead letter"
}

// delayLevel: levels 1 (1 s) and 2 (5 s).
func delayLevel(r *run) string {
	topic := r.topic("delay")
	from := r.producer()
	send(from, topic, "now", 4)
	got := &received{}
	r.pushConsumer(r.group("delay"), topic, everything, got.handle)
	got.await(r, 4, 30*time.Second)
	got.clear()
	for level := 1; level <= 2; level++ {
		for i := 0; i < 5; i++ {
			sent(from, text(topic, fmt.Sprintf("level%d-%d", level, i)).WithDelayTimeLevel(level).WithKeys([]string{"delayed"}))
		}
	}
	got.await(r, 10, 40*time.Second)
	equal("messages", 10, got.count())
	worst := int64(0)
	for _, message := range got.all() {
		var level, number int
		_, err := fmt.Sscanf(string(message.Body), "level%d-%d", &level, &number)
		must("the body of a delayed message", err)
		waited := message.StoreTimestamp - message.BornTimestamp
		due := []int64{0, 1000, 5000}[level]
		that(waited >= due-50, "level %d was stored after %d ms", level, waited)
		equal("topic", topic, message.Topic)
		equal("keys", "delayed", message.GetKeys())
		if late := waited - due; late > worst {
			worst = late
		}
	}
	that(worst < 3000, "a message was %d ms late", worst)
	return fmt.Sprintf("levels 1 and 2, at most %d ms late", worst)
}
