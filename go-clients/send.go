package main

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func registerSend() {
	core("send-sync", sendSync)
	core("send-async", sendAsync)
	core("send-oneway", sendOneway)
	core("send-batch", sendBatch)
	core("send-selector", sendSelector)
	core("send-large", sendLarge)
	core("send-namespace", sendNamespace)
}

func name(count int, what string) string { return fmt.Sprintf("%d %s", count, what) }

func text(topic, body string) *primitive.Message { return primitive.NewMessage(topic, []byte(body)) }

func numbered(prefix string, count int) []string {
	texts := make([]string, count)
	for i := range texts {
		texts[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	return texts
}

// send sends numbered messages and returns their results, all of which are good.
func send(from rocketmq.Producer, topic, prefix string, count int) []*primitive.SendResult {
	results := make([]*primitive.SendResult, 0, count)
	for _, body := range numbered(prefix, count) {
		results = append(results, sent(from, text(topic, body)))
	}
	return results
}

func sent(from rocketmq.Producer, message *primitive.Message) *primitive.SendResult {
	result, err := from.SendSync(background, message)
	must("a send", err)
	equal("the send's status", primitive.SendOK, result.Status)
	return result
}

// contiguous checks that the offsets of each queue have no hole, beginning at 0, and returns the number of queues.
func contiguous(results []*primitive.SendResult) int {
	next := map[int]int64{}
	for _, result := range results {
		queue := result.MessageQueue.QueueId
		equal(fmt.Sprintf("the next offset of queue %d", queue), next[queue], result.QueueOffset)
		next[queue]++
	}
	return len(next)
}

// readBack reads a sent message at the place that its answer names.
func readBack(r *run, topic string, results []*primitive.SendResult) []*primitive.MessageExt {
	r.awaitReadable(topic, results)
	reader := r.pullConsumer(r.group("reader"), topic, everything)
	messages := make([]*primitive.MessageExt, 0, len(results))
	for _, result := range results {
		found, err := reader.PullFrom(background, result.MessageQueue, result.QueueOffset, 1)
		must("a pull", err)
		equal("the pull's status", primitive.PullFound, found.Status)
		equal("messages of a pull for one", 1, len(found.GetMessageExts()))
		messages = append(messages, found.GetMessageExts()[0])
	}
	return messages
}

// sendSync: every field of a message arrives as it was sent, and the answer names its place.
func sendSync(r *run) string {
	topic := r.topic("sync")
	from := r.producer()
	var results []*primitive.SendResult
	ids := map[string]bool{}
	begin := time.Now().Add(-time.Second)
	for i, body := range numbered("sync", 40) {
		message := text(topic, body).WithTag("tag" + fmt.Sprint(i%3)).WithKeys([]string{"key" + fmt.Sprint(i), "all"})
		message.WithProperty("user", "välue "+fmt.Sprint(i))
		message.Flag = int32(i)
		result := sent(from, message)
		ids[result.MsgID] = true
		results = append(results, result)
	}
	equal("different ids", 40, len(ids))
	equal("queues", 4, contiguous(results))
	for i, message := range readBack(r, topic, results) {
		equal("body", fmt.Sprintf("sync-%04d", i), string(message.Body))
		equal("topic", topic, message.Topic)
		equal("tag", "tag"+fmt.Sprint(i%3), message.GetTags())
		equal("keys", fmt.Sprintf("key%d all", i), message.GetKeys())
		equal("user property", "välue "+fmt.Sprint(i), message.GetProperty("user"))
		equal("flag", int32(i), message.Flag)
		equal("unique id", results[i].MsgID, message.MsgId)
		equal("offset id", results[i].OffsetMsgID, message.OffsetMsgId)
		equal("queue offset", results[i].QueueOffset, message.QueueOffset)
		equal("times", int32(0), message.ReconsumeTimes)
		that(message.BornTimestamp > begin.UnixMilli() && message.StoreTimestamp >= begin.UnixMilli(), "times of birth %d and storing %d", message.BornTimestamp, message.StoreTimestamp)
		equal("store host", r.broker(), message.StoreHost)
	}
	return "40 messages in 4 queues, read back whole"
}

func sendAsync(r *run) string {
	topic := r.topic("async")
	from := r.producer()
	// The client takes a new topic's route on the caller's thread; one synchronous send spares it fifty requests for it.
	sent(from, text(topic, "first"))
	var lock sync.Mutex
	var results []*primitive.SendResult
	var errors []error
	for _, body := range numbered("async", 50) {
		err := from.SendAsync(background, func(_ context.Context, result *primitive.SendResult, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				errors = append(errors, err)
				return
			}
			results = append(results, result)
		}, text(topic, body))
		must("an asynchronous send", err)
	}
	count := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(results) + len(errors)
	}
	r.await("50 answers", 30*time.Second, func() bool { return count() == 50 }, func() any { return count() })
	equal("errors", 0, len(errors))
	for _, result := range results {
		equal("status", primitive.SendOK, result.Status)
	}
	equal("bodies", numbered("async", 50), bodies(readBack(r, topic, results)))
	return "50 answers, all good"
}

func sendOneway(r *run) string {
	topic := r.topic("oneway")
	from := r.producer()
	sent(from, text(topic, "oneway-first"))
	for _, body := range numbered("oneway", 20) {
		must("a one-way send", from.SendOneWay(background, text(topic, body)))
	}
	got := &received{}
	r.pushConsumer(r.group("oneway"), topic, everything, got.handle)
	got.await(r, 21, 30*time.Second)
	equal("bodies", sorted(append(numbered("oneway", 20), "oneway-first")), got.bodies())
	return "20 messages without an answer arrived"
}

// sendBatch: one request, consecutive places in one queue.
func sendBatch(r *run) string {
	topic := r.topic("batch")
	from := r.producer()
	var batch []*primitive.Message
	for i, body := range numbered("batch", 20) {
		message := text(topic, body).WithTag("t" + fmt.Sprint(i)).WithKeys([]string{"k" + fmt.Sprint(i)})
		batch = append(batch, message)
	}
	result, err := from.SendSync(background, batch...)
	must("a batch", err)
	equal("status", primitive.SendOK, result.Status)
	equal("queue offset", int64(0), result.QueueOffset)
	equal("ids of the messages", 20, len(strings.Split(result.OffsetMsgID, ",")))
	got := &received{}
	r.pushConsumer(r.group("batch"), topic, everything, got.handle)
	got.await(r, 20, 30*time.Second)
	equal("bodies", numbered("batch", 20), got.bodies())
	for _, message := range got.all() {
		equal("queue", result.MessageQueue.QueueId, message.Queue.QueueId)
		equal("body at its offset", fmt.Sprintf("batch-%04d", message.QueueOffset), string(message.Body))
		equal("tag", fmt.Sprintf("t%d", message.QueueOffset), message.GetTags())
		equal("key", fmt.Sprintf("k%d", message.QueueOffset), message.GetKeys())
	}
	return "20 messages in one request"
}

// sendSelector: messages with one sharding key are in one queue, in their order; a manual selector puts a message where it is told.
func sendSelector(r *run) string {
	topic := r.topic("selector")
	from := r.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	queues := map[string]int{}
	var results []*primitive.SendResult
	for i := 0; i < 60; i++ {
		key := fmt.Sprintf("shard%d", i%12)
		result := sent(from, text(topic, fmt.Sprintf("%s-%04d", key, i)).WithShardingKey(key))
		if queue, seen := queues[key]; seen {
			equal("the queue of "+key, queue, result.MessageQueue.QueueId)
		}
		queues[key] = result.MessageQueue.QueueId
		results = append(results, result)
	}
	that(contiguous(results) > 1, "all of 12 keys in one queue")
	for i, message := range readBack(r, topic, results) {
		equal("sharding key", fmt.Sprintf("shard%d", i%12), message.GetShardingKey())
	}
	manual := r.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()), producer.WithGroupName(r.group("manual")))
	for queue := 3; queue >= 0; queue-- {
		message := text(topic, "manual")
		message.Queue = &primitive.MessageQueue{Topic: topic, BrokerName: results[0].MessageQueue.BrokerName, QueueId: queue}
		equal("the queue", queue, sent(manual, message).MessageQueue.QueueId)
	}
	return fmt.Sprintf("12 keys in %d queues, 4 messages where they were told", contiguous(results))
}

// sendLarge: bodies around the size from which the client compresses (4096), one that grows by it, and one close to the broker's limit.
func sendLarge(r *run) string {
	topic := r.topic("large")
	from := r.producer()
	random := rand.New(rand.NewSource(1))
	noise := make([]byte, 100_000)
	random.Read(noise)
	var bodies [][]byte
	for _, size := range []int{4095, 4096, 4097, 3_500_000} {
		bodies = append(bodies, []byte(strings.Repeat("x", size)))
	}
	bodies = append(bodies, noise)
	var results []*primitive.SendResult
	for _, body := range bodies {
		results = append(results, sent(from, primitive.NewMessage(topic, body)))
	}
	for i, message := range readBack(r, topic, results) {
		that(string(bodies[i]) == string(message.Body), "a body of %d bytes came back as %d other bytes", len(bodies[i]), len(message.Body))
	}
	tooMuch := make([]byte, 5_000_000)
	random.Read(tooMuch)
	_, err := from.SendSync(background, primitive.NewMessage(topic, tooMuch))
	that(err != nil && strings.Contains(err.Error(), "CODE: 13"), "a body of 5,000,000 bytes: expected code 13, found %v", err)
	return "5 bodies up to 3.5 MB; 5 MB refused with 13"
}

// sendNamespace: the namespace is a part of the names that the servers see.
func sendNamespace(r *run) string {
	space, topic := "space"+r.unique, r.topic("spaced")
	from := r.producer(producer.WithNamespace(space))
	results := send(from, topic, "spaced", 8)
	equal("the topic on the wire", space+"%"+topic, results[0].MessageQueue.Topic)
	got := &received{}
	r.awaitRoute(space + "%" + topic)
	made, err := rocketmq.NewPushConsumer(append(r.consumerOptions(r.group("spaced")), consumer.WithNamespace(space))...)
	must("a push consumer", err)
	must("a subscription", made.Subscribe(topic, everything, got.handle))
	must("the consumer's start", made.Start())
	r.closing(made.Shutdown)
	got.await(r, 8, 30*time.Second)
	equal("bodies", numbered("spaced", 8), got.bodies())
	return "8 messages within a namespace"
}
