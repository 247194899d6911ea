package main

import (
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func registerPush() {
	core("push-cluster", pushCluster)
	core("push-broadcast", pushBroadcast)
	core("push-tags", pushTags)
	core("push-offsets", pushOffsets)
	core("push-where", pushWhere)
	core("push-latency", pushLatency)
}

// pushCluster: two members share the queues; when one joins or leaves the queues move, and nothing is lost.
func pushCluster(r *run) string {
	topic, group := r.topic("cluster"), r.group("cluster")
	from := r.producer()
	send(from, topic, "alone", 16)
	first, second := &received{}, &received{}
	r.pushConsumer(group, topic, everything, first.handle)
	first.await(r, 16, 30*time.Second)
	equal("bodies of the only member", numbered("alone", 16), first.bodies())

	joined := time.Now()
	other := r.pushConsumer(group, topic, everything, second.handle)
	// What moved before its offset was stored comes again; only the messages of a round are counted for it.
	shares := func(prefix string) (int, int) { return len(first.with(prefix)), len(second.with(prefix)) }
	round := 0
	r.await("half of the queues at each member", 30*time.Second, func() bool {
		round++
		prefix := fmt.Sprintf("round%d-", round)
		send(from, topic, fmt.Sprintf("round%d", round), 4)
		count := func() int { a, b := shares(prefix); return a + b }
		r.await("a round of 4", 20*time.Second, func() bool { return count() >= 4 }, func() any { return count() })
		a, b := shares(prefix)
		return a == 2 && b == 2
	}, func() any { return fmt.Sprint(first.count(), second.count()) })
	shared := time.Since(joined)
	send(from, topic, "shared", 40)
	count := func() int { a, b := shares("shared"); return a + b }
	r.await("40 messages", 30*time.Second, func() bool { return count() >= 40 }, func() any { return count() })
	a, b := shares("shared")
	that(a == 20 && b == 20, "shares of 40 messages: %d and %d", a, b)
	equal("bodies of both", numbered("shared", 40), sorted(append(first.with("shared"), second.with("shared")...)))

	must("a shutdown", other.Shutdown())
	left := time.Now()
	send(from, topic, "left", 8)
	r.await("8 messages at the one that stayed", 30*time.Second, func() bool { return len(first.with("left")) >= 8 }, func() any { return first.with("left") })
	equal("bodies of the one that stayed", numbered("left", 8), first.with("left"))
	return fmt.Sprintf("shared after %d ms, taken over after %d ms", shared.Milliseconds(), time.Since(left).Milliseconds())
}

// pushBroadcast: each member gets everything.
func pushBroadcast(r *run) string {
	topic, group := r.topic("broadcast"), r.group("broadcast")
	from := r.producer()
	send(from, topic, "broadcast", 20)
	model := consumer.WithConsumerModel(consumer.BroadCasting)
	first, second := &received{}, &received{}
	r.pushConsumer(group, topic, everything, first.handle, model)
	r.pushConsumer(group, topic, everything, second.handle, model)
	for _, each := range []*received{first, second} {
		each.await(r, 20, 30*time.Second)
		equal("bodies", numbered("broadcast", 20), each.bodies())
	}
	send(from, topic, "again", 8)
	for _, each := range []*received{first, second} {
		each.await(r, 28, 30*time.Second)
		equal("bodies", sorted(append(numbered("broadcast", 20), numbered("again", 8)...)), each.bodies())
	}
	return "2 members with all of 28 messages each"
}

// pushTags: the broker sends only what a subscription names.
func pushTags(r *run) string {
	topic := r.topic("tags")
	from := r.producer()
	var wanted []string
	for i, body := range numbered("tags", 60) {
		message := text(topic, body)
		if tag := i % 5; tag < 4 {
			message.WithTag(string(rune('a' + tag)))
			if tag == 0 || tag == 2 {
				wanted = append(wanted, body)
			}
		}
		sent(from, message)
	}
	some, one, all := &received{}, &received{}, &received{}
	r.pushConsumer(r.group("some"), topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "a || c"}, some.handle)
	r.pushConsumer(r.group("one"), topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "d"}, one.handle)
	r.pushConsumer(r.group("all"), topic, everything, all.handle)
	some.await(r, 24, 30*time.Second)
	one.await(r, 12, 30*time.Second)
	all.await(r, 60, 30*time.Second)
	// Later messages show that the earlier ones were not just late.
	for i := 0; i < 4; i++ {
		sent(from, text(topic, "last").WithTag("a"))
		wanted = append(wanted, "last")
	}
	some.await(r, 28, 30*time.Second)
	equal("bodies of a || c", sorted(wanted), some.bodies())
	for _, message := range one.all() {
		equal("tag", "d", message.GetTags())
	}
	equal("messages of d", 12, one.count())
	return "28 of a || c, 12 of d, 64 of all"
}

// pushOffsets: a group goes on where it stopped.
func pushOffsets(r *run) string {
	topic, group := r.topic("offsets"), r.group("offsets")
	from := r.producer()
	for round := 0; round < 3; round++ {
		prefix := fmt.Sprintf("round%d", round)
		send(from, topic, prefix, 20)
		got := &received{}
		member := r.pushConsumer(group, topic, everything, got.handle)
		got.await(r, 20, 30*time.Second)
		// The offset of the last message is stored when its handler has returned, which a shutdown of this client does not wait for.
		awaitCommitted(r, member)
		must("a shutdown", member.Shutdown())
		r.awaitStoredOffsets(group, topic)
		equal("bodies", numbered(prefix, 20), got.bodies())
	}
	return "3 members in turn, 20 messages each"
}

// awaitCommitted waits until a consumer has noted the end of each of its queues in memory, from where its shutdown stores it.
func awaitCommitted(r *run, member interface{ GetOffsetDiffMap() map[string]int64 }) {
	behind := func() int64 {
		sum := int64(0)
		for _, each := range member.GetOffsetDiffMap() {
			sum += each
		}
		return sum
	}
	r.await("the offsets of what was consumed", 20*time.Second, func() bool { return behind() == 0 }, func() any { return behind() })
}

// pushWhere: from the first message, from a time, and from the end.
func pushWhere(r *run) string {
	topic := r.topic("where")
	from := r.producer()
	old := send(from, topic, "old", 8)
	first, timed := &received{}, &received{}
	r.pushConsumer(r.group("first"), topic, everything, first.handle)
	first.await(r, 8, 30*time.Second)
	// The time that the client is told has the precision of a second, and it reads it as UTC.
	boundary := time.UnixMilli(lastStored(first)).Truncate(time.Second).Add(time.Second)
	r.await("the next second", 5*time.Second, func() bool { return time.Now().After(boundary) }, func() any { return boundary })
	send(from, topic, "new", 8)
	r.pushConsumer(r.group("timed"), topic, everything, timed.handle,
		consumer.WithConsumeFromWhere(consumer.ConsumeFromTimestamp), consumer.WithConsumeTimestamp(boundary.UTC().Format("20060102150405")))
	timed.await(r, 8, 30*time.Second)
	first.await(r, 16, 30*time.Second)
	send(from, topic, "newest", 8)
	timed.await(r, 16, 30*time.Second)
	early := 0
	for _, message := range timed.all() {
		if message.StoreTimestamp < boundary.UnixMilli() {
			early++
		}
	}
	// A queue that still begins at its first message is consumed from there by a new group, whatever the client asks: the broker decides so.
	that(early == 0 || early == len(old), "%d of %d old messages", early, len(old))
	return fmt.Sprintf("16 from the first, %d from a time", timed.count())
}

func lastStored(got *received) int64 {
	last := int64(0)
	for _, message := range got.all() {
		if message.StoreTimestamp > last {
			last = message.StoreTimestamp
		}
	}
	return last
}

// pushLatency: a waiting pull is answered when a message comes.
func pushLatency(r *run) string {
	topic := r.topic("latency")
	from := r.producer()
	send(from, topic, "warm", 8)
	got := &received{}
	r.pushConsumer(r.group("latency"), topic, everything, got.handle)
	got.await(r, 8, 30*time.Second)
	worst := time.Duration(0)
	for i := 0; i < 20; i++ {
		begin := time.Now()
		sent(from, text(topic, "one"))
		got.await(r, 9+i, 10*time.Second)
		if took := time.Since(begin); took > worst {
			worst = took
		}
	}
	that(worst < 3*time.Second, "a message took %v", worst)
	return fmt.Sprintf("at most %d ms from the send to the handler", worst.Milliseconds())
}

// manualQueue is a message that goes to one queue.
func manualQueue(message *primitive.Message, broker string, queue int) *primitive.Message {
	message.Queue = &primitive.MessageQueue{Topic: message.Topic, BrokerName: broker, QueueId: queue}
	return message
}

// bySelf is the option of a producer whose messages name their queues.
func bySelf() producer.Option { return producer.WithQueueSelector(producer.NewManualQueueSelector()) }
