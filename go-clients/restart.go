package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Pieces of a story in which the broker is restarted; their names come by options.
func registerRestart() {
	part("produce", produce)
	part("consume", consume)
	part("survive", survive)
}

// produce sends --count messages with bodies that begin with --prefix to --topic.
func produce(r *run) string {
	send(r.producer(), r.option("topic"), r.option("prefix"), r.number("count"))
	return fmt.Sprintf("%d messages stored", r.number("count"))
}

// consume wants exactly the messages of one produce as --group, and leaves the group's offsets at the ends of the queues.
func consume(r *run) string {
	topic, group, count := r.option("topic"), r.option("group"), r.number("count")
	got := &received{}
	member := r.pushConsumer(group, topic, everything, got.handle)
	got.await(r, count, 60*time.Second)
	awaitCommitted(r, member)
	must("a shutdown", member.Shutdown())
	r.awaitStoredOffsets(group, topic)
	equal("bodies", numbered(r.option("prefix"), count), got.bodies())
	return fmt.Sprintf("%d messages, no other", count)
}

// survive sends to --topic and consumes from it while servers come and go, until the file --stop is there. Each stored message is a line of the file
// --file. In the end the consumer must have had all of them.
func survive(r *run) string {
	topic := r.option("topic")
	file, err := os.Create(r.option("file"))
	must("the file of stored messages", err)
	r.closing(file.Close)
	from := r.producer()
	stored := map[string]bool{}
	note := func(body string) {
		stored[body] = true
		_, err := fmt.Fprintln(file, body)
		must("a line in the file of stored messages", err)
	}
	sent(from, text(topic, "first"))
	note("first")
	var lock sync.Mutex
	consumed := map[string]bool{}
	handle := func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, message := range batch {
			consumed[string(message.Body)] = true
		}
		return consumer.ConsumeSuccess, nil
	}
	r.pushConsumer(r.group("survive"), topic, everything, handle)
	failures := 0
	stopped := func() bool {
		_, err := os.Stat(r.option("stop"))
		return err == nil
	}
	r.setWaiting("the stop file")
	for i := 0; !stopped(); i++ {
		body := fmt.Sprintf("survive-%06d", i)
		result, err := from.SendSync(background, text(topic, body))
		switch {
		case err == nil && result.Status == primitive.SendOK:
			note(body)
		case err != nil && strings.Contains(err.Error(), "CODE:"):
			fail("the broker refused a message: %v", err)
		default:
			failures++
			time.Sleep(20 * time.Millisecond)
		}
	}
	missing := func() int {
		lock.Lock()
		defer lock.Unlock()
		count := 0
		for body := range stored {
			if !consumed[body] {
				count++
			}
		}
		return count
	}
	r.await("the stored messages at the consumer", 60*time.Second, func() bool { return missing() == 0 }, func() any { return fmt.Sprintf("%d missing", missing()) })
	return fmt.Sprintf("%d messages stored and consumed, %d sends failed", len(stored), failures)
}
