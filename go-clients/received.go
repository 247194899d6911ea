package main

import (
	"context"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

// received collects what a consumer was given, in the order of arrival.
type received struct {
	lock     sync.Mutex
	messages []*primitive.MessageExt
	times    []time.Time
}

// handle confirms everything.
func (c *received) handle(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	c.add(batch...)
	return consumer.ConsumeSuccess, nil
}

func (c *received) add(batch ...*primitive.MessageExt) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, message := range batch {
		c.messages = append(c.messages, message)
		c.times = append(c.times, time.Now())
	}
}

func (c *received) count() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return len(c.messages)
}

func (c *received) all() []*primitive.MessageExt {
	c.lock.Lock()
	defer c.lock.Unlock()
	return append([]*primitive.MessageExt(nil), c.messages...)
}

func (c *received) clear() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.messages, c.times = nil, nil
}

// bodies are sorted; a message that came twice is there twice.
func (c *received) bodies() []string { return bodies(c.all()) }

// with are the bodies that begin so, sorted.
func (c *received) with(prefix string) []string {
	var chosen []string
	for _, body := range c.bodies() {
		if strings.HasPrefix(body, prefix) {
			chosen = append(chosen, body)
		}
	}
	return chosen
}

// await waits for a number of messages.
func (c *received) await(r *run, count int, limit time.Duration) {
	r.await(name(count, "messages at the consumer"), limit, func() bool { return c.count() >= count }, func() any { return c.count() })
}

func bodies(messages []*primitive.MessageExt) []string {
	texts := make([]string, 0, len(messages))
	for _, message := range messages {
		texts = append(texts, string(message.Body))
	}
	sort.Strings(texts)
	return texts
}

func sorted(texts []string) []string {
	sort.Strings(texts)
	return texts
}
