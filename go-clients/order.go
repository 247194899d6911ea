package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func registerOrder() {
	core("order-consume", orderConsume)
	core("order-suspend", orderSuspend)
	core("order-handover", orderHandover)
}

// steps collects the steps of each key in the order of their arrival.
type steps struct {
	lock sync.Mutex
	keys map[string][]int
}

func (s *steps) handle(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, message := range batch {
		key, step, _ := strings.Cut(string(message.Body), " ")
		number, _ := strconv.Atoi(step)
		s.keys[key] = append(s.keys[key], number)
	}
	return consumer.ConsumeSuccess, nil
}

func (s *steps) count() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	sum := 0
	for _, each := range s.keys {
		sum += len(each)
	}
	return sum
}

// check wants each of the keys with the steps from one to before the other, in order.
func (s *steps) check(keys, from, to int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	equal("keys", keys, len(s.keys))
	for key, found := range s.keys {
		var expected []int
		for step := from; step < to; step++ {
			expected = append(expected, step)
		}
		equal("the steps of "+key, expected, found)
	}
}

func sendSteps(from rocketmq.Producer, topic string, keys, begin, end int) {
	for step := begin; step < end; step++ {
		for key := 0; key < keys; key++ {
			name := fmt.Sprintf("key%d", key)
			sent(from, text(topic, fmt.Sprintf("%s %d", name, step)).WithShardingKey(name))
		}
	}
}

func orderly() consumer.Option { return consumer.WithConsumerOrder(true) }

// orderConsume: the queues are locked at the broker, and each key's messages come in their order.
func orderConsume(r *run) string {
	topic := r.topic("order")
	from := r.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	sendSteps(from, topic, 8, 0, 20)
	got := &steps{keys: map[string][]int{}}
	r.pushConsumer(r.group("order"), topic, everything, got.handle, orderly())
	sendSteps(from, topic, 8, 20, 30)
	r.await("240 steps", 45*time.Second, func() bool { return got.count() >= 240 }, func() any { return got.count() })
	got.check(8, 0, 30)
	return "8 keys with 30 steps each, in order"
}

// orderSuspend: a message that fails is tried again before the next of its queue.
func orderSuspend(r *run) string {
	topic := r.topic("suspend")
	from := r.producer(bySelf())
	for i := 0; i < 6; i++ {
		sent(from, manualQueue(text(topic, fmt.Sprint(i)), r.brokerName(), 0))
	}
	var lock sync.Mutex
	var seen []string
	refused := 0
	handle := func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		body := string(batch[0].Body)
		seen = append(seen, body)
		if body == "2" {
			if refused++; refused <= 2 {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	r.pushConsumer(r.group("suspend"), topic, everything, handle, orderly(), consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	found := func() []string {
		lock.Lock()
		defer lock.Unlock()
		return append([]string(nil), seen...)
	}
	last := func() string {
		calls := found()
		return strings.Join(calls, " ")
	}
	r.await("the last message", 40*time.Second, func() bool { return strings.HasSuffix(last(), "5") }, func() any { return found() })
	// This client may begin a queue twice: only the order counts, and how often the third message came.
	tail := last()[strings.LastIndex(last(), "1")+2:]
	equal("the calls after the second message", "2 2 2 3 4 5", tail)
	return "the third message three times, then the others"
}

// orderHandover: a member that leaves gives its locks back, and the next one goes on in order.
func orderHandover(r *run) string {
	topic, group := r.topic("handover"), r.group("handover")
	from := r.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	sendSteps(from, topic, 6, 0, 10)
	first, second := &steps{keys: map[string][]int{}}, &steps{keys: map[string][]int{}}
	member := r.pushConsumer(group, topic, everything, first.handle, orderly())
	r.await("60 steps", 40*time.Second, func() bool { return first.count() >= 60 }, func() any { return first.count() })
	awaitCommitted(r, member)
	must("a shutdown", member.Shutdown())
	r.awaitStoredOffsets(group, topic)
	left := time.Now()
	sendSteps(from, topic, 6, 10, 20)
	r.pushConsumer(group, topic, everything, second.handle, orderly())
	r.await("60 steps at the second", 40*time.Second, func() bool { return second.count() >= 60 }, func() any { return second.count() })
	first.check(6, 0, 10)
	second.check(6, 10, 20)
	return fmt.Sprintf("taken over within %d ms", time.Since(left).Milliseconds())
}
