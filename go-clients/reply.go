package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func registerReply() {
	core("request-reply", requestReply)
	core("request-timeout", requestTimeout)
}

// requestReply: requests are answered by a consumer, to callers that wait and to callbacks.
func requestReply(r *run) string {
	topic := r.topic("request")
	from := r.producer()
	answerer := r.producer()
	sent(from, text(topic, "warm"))
	var lock sync.Mutex
	var troubles []error
	handle := func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range batch {
			if string(message.Body) == "warm" {
				continue
			}
			body := []byte("answer to " + string(message.Body))
			answer, err := consumer.CreateReplyMessage(message, nil)
			if err == nil {
				// The client takes the body that it is given for properties.
				answer.Body = body
				_, err = answerer.SendSync(background, answer)
			}
			if err != nil {
				lock.Lock()
				troubles = append(troubles, err)
				lock.Unlock()
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	r.pushConsumer(r.group("answerer"), topic, everything, handle)
	trouble := func() any {
		lock.Lock()
		defer lock.Unlock()
		return fmt.Sprint(troubles)
	}
	// The broker finds the requester by its heartbeat, which this client sends a second after its start: requests before that stay without an answer.
	r.await("the first answer", 30*time.Second, func() bool {
		answer, err := from.Request(background, 300*time.Millisecond, text(topic, "early"))
		return err == nil && answer != nil
	}, trouble)
	lock.Lock()
	troubles = nil
	lock.Unlock()
	for i := 0; i < 10; i++ {
		body := fmt.Sprintf("question %d", i)
		answer, err := from.Request(background, 20*time.Second, text(topic, body))
		if err != nil {
			fail("a request: %v; the answerer's troubles: %v", err, trouble())
		}
		that(answer != nil, "a request ended without an answer")
		equal("the answer", "answer to "+body, string(answer.Body))
	}
	answers := map[string]bool{}
	for i := 0; i < 10; i++ {
		must("an asynchronous request", from.RequestAsync(background, 20*time.Second, func(_ context.Context, answer *primitive.Message, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				troubles = append(troubles, err)
			} else if answer != nil {
				answers[string(answer.Body)] = true
			}
		}, text(topic, fmt.Sprintf("call %d", i))))
	}
	count := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(answers)
	}
	r.await("10 answers to callbacks", 30*time.Second, func() bool { return count() == 10 }, func() any { return fmt.Sprint(count(), trouble()) })
	return "10 requests answered to callers, 10 to callbacks"
}

// requestTimeout: nobody answers.
func requestTimeout(r *run) string {
	topic := r.topic("request")
	from := r.producer()
	begin := time.Now()
	_, err := from.Request(background, 1500*time.Millisecond, text(topic, "question"))
	that(err != nil && strings.Contains(err.Error(), "timeout"), "expected a timeout, found %v", err)
	return fmt.Sprintf("gave up after %d ms", time.Since(begin).Milliseconds())
}
