package main

import (
	"fmt"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func registerPull() {
	core("pull-poll", pullPoll)
	core("pull-from", pullFrom)
	core("pull-offsets", pullOffsets)
}

// pullPoll: a polling consumer, with this client's default of no batch size at all (it sends 0), gets each message once and confirms it.
func pullPoll(r *run) string {
	topic, group := r.topic("poll"), r.group("poll")
	from := r.producer()
	send(from, topic, "poll", 24)
	for round, options := range [][]consumer.Option{nil, {consumer.WithPullBatchSize(16)}} {
		member := r.pullConsumer(group, topic, everything, options...)
		got := &received{}
		r.await("24 messages", 40*time.Second, func() bool {
			request, err := member.Poll(background, 500*time.Millisecond)
			if consumer.IsNoNewMsgError(err) {
				return false
			}
			must("a poll", err)
			got.add(request.GetMsgList()...)
			member.ACK(background, request, consumer.ConsumeSuccess)
			return got.count() >= 24
		}, func() any { return got.count() })
		must("a shutdown", member.Shutdown())
		r.awaitStoredOffsets(group, topic)
		prefix := []string{"poll", "more"}[round]
		equal("bodies", numbered(prefix, 24), got.bodies())
		// The next member begins where this one stopped.
		send(from, topic, "more", 24)
	}
	return "24 messages, then only the next 24"
}

// pullFrom: what a pull at an offset says and brings.
func pullFrom(r *run) string {
	topic := r.topic("from")
	from := r.producer(bySelf())
	var results []*primitive.SendResult
	for i, body := range numbered("from", 30) {
		results = append(results, sent(from, manualQueue(text(topic, body).WithTag([]string{"even", "odd"}[i%2]), r.brokerName(), 1)))
	}
	r.awaitReadable(topic, results)
	queue := primitive.MessageQueue{Topic: topic, BrokerName: r.brokerName(), QueueId: 1}
	pull := func(reader rocketmq.PullConsumer, offset int64, count int) *primitive.PullResult {
		copied := queue
		result, err := reader.PullFrom(background, &copied, offset, count)
		must(fmt.Sprintf("a pull at %d", offset), err)
		return result
	}
	reader := r.pullConsumer(r.group("from"), topic, everything)
	result := pull(reader, 10, 8)
	that(result.Status == primitive.PullFound, "status of a pull at 10: %v, of %d to %d, next %d", result.Status, result.MinOffset, result.MaxOffset, result.NextBeginOffset)
	equal("bodies", numbered("from", 30)[10:18], bodies(result.GetMessageExts()))
	equal("begin, end and next", []int64{0, 30, 18}, []int64{result.MinOffset, result.MaxOffset, result.NextBeginOffset})
	result = pull(reader, 28, 32)
	equal("messages at the end", 2, len(result.GetMessageExts()))
	equal("next", int64(30), result.NextBeginOffset)
	result = pull(reader, 1000, 8)
	equal("status far behind the end", primitive.PullOffsetIllegal, result.Status)
	equal("next", int64(30), result.NextBeginOffset)

	odd := r.pullConsumer(r.group("odd"), topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "odd"})
	result = pull(odd, 0, 32)
	equal("messages of one tag", 15, len(result.GetMessageExts()))
	for _, message := range result.GetMessageExts() {
		equal("tag", "odd", message.GetTags())
	}
	none := r.pullConsumer(r.group("none"), topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "neither"})
	result = pull(none, 0, 32)
	equal("status without a match", primitive.PullNoMsgMatched, result.Status)
	equal("next without a match", int64(30), result.NextBeginOffset)
	return "places, limits and tags of pulls"
}

// pullOffsets: offsets that are set by hand are stored at the broker.
func pullOffsets(r *run) string {
	topic, group := r.topic("offsets"), r.group("offsets")
	from := r.producer(bySelf())
	queue := primitive.MessageQueue{Topic: topic, BrokerName: r.brokerName(), QueueId: 0}
	for _, body := range numbered("offsets", 12) {
		sent(from, manualQueue(text(topic, body), queue.BrokerName, 0))
	}
	member := r.pullConsumer(group, topic, everything)
	// Only the offsets of queues that the member has by now are stored.
	r.await("the queue's offset at the member", 30*time.Second, func() bool {
		must("an offset", member.UpdateOffset(&queue, 7))
		offset, err := member.CurrentOffset(&queue)
		must("the offset", err)
		must("storing", member.PersistOffset(background, topic))
		return offset == 7 && r.storedOffset(group, topic, 0) == 7
	}, func() any { return r.storedOffset(group, topic, 0) })
	must("a shutdown", member.Shutdown())
	return "offset 7 stored"
}
