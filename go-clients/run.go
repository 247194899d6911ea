package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var background = context.Background()

var instances int64

// run is one run of a scenario: its options, names that no other run uses, and its clients, which are shut down at its end.
type run struct {
	scenario string
	unique   string
	options  map[string]string

	lock       sync.Mutex
	waitingFor string
	closers    []func() error
}

func newRun(scenario string, at int, options map[string]string) *run {
	unique := strconv.FormatInt(time.Now().UnixMilli()%1_000_000_000, 36) + strconv.FormatInt(int64(at), 36)
	return &run{scenario: scenario, unique: unique, options: options, waitingFor: "nothing"}
}

func (r *run) namesrv() string { return r.option("namesrv") }

func (r *run) broker() string { return r.option("broker") }

func (r *run) option(key string) string {
	value, there := r.options[key]
	that(there, "the option --%s is missing", key)
	return value
}

func (r *run) number(key string) int {
	number, err := strconv.Atoi(r.option(key))
	must("the option --"+key, err)
	return number
}

// topic is a name that this run alone uses.
func (r *run) topic(part string) string {
	return fmt.Sprintf("GT-%s-%s-%s", r.scenario, part, r.unique)
}

// group is a name that this run alone uses.
func (r *run) group(part string) string {
	return fmt.Sprintf("GG-%s-%s-%s", r.scenario, part, r.unique)
}

// instance gives each client a connection, routes and heartbeats of its own.
func (r *run) instance() string {
	return fmt.Sprintf("%s-%s-%d", r.scenario, r.unique, atomic.AddInt64(&instances, 1))
}

func (r *run) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{r.namesrv()})
}

// producer returns a started producer.
func (r *run) producer(options ...producer.Option) rocketmq.Producer {
	all := append(r.producerOptions(), options...)
	made, err := rocketmq.NewProducer(all...)
	must("a producer", err)
	must("the producer's start", made.Start())
	r.closing(made.Shutdown)
	return made
}

func (r *run) producerOptions() []producer.Option {
	return []producer.Option{
		producer.WithNsResolver(r.resolver()),
		producer.WithGroupName(r.group("producer")),
		producer.WithInstanceName(r.instance()),
		producer.WithQueueSelector(producer.NewRoundRobinQueueSelector()),
		producer.WithRetry(2),
	}
}

// handler is what a push consumer does with a batch.
type handler = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// pushConsumer returns a push consumer that begins at the first message, started when the name server knows the topic: the client refuses to start
// before that.
func (r *run) pushConsumer(group, topic string, selector consumer.MessageSelector, handle handler, options ...consumer.Option) rocketmq.PushConsumer {
	r.awaitRoute(topic)
	all := append(r.consumerOptions(group), options...)
	made, err := rocketmq.NewPushConsumer(all...)
	must("a push consumer", err)
	must("a subscription", made.Subscribe(topic, selector, handle))
	must("the consumer's start", made.Start())
	r.closing(made.Shutdown)
	return made
}

// pullConsumer returns a started pull consumer.
func (r *run) pullConsumer(group, topic string, selector consumer.MessageSelector, options ...consumer.Option) rocketmq.PullConsumer {
	r.awaitRoute(topic)
	all := append(r.consumerOptions(group), options...)
	made, err := rocketmq.NewPullConsumer(all...)
	must("a pull consumer", err)
	must("a subscription", made.Subscribe(topic, selector))
	must("the consumer's start", made.Start())
	r.closing(made.Shutdown)
	return made
}

func (r *run) consumerOptions(group string) []consumer.Option {
	return []consumer.Option{
		consumer.WithNsResolver(r.resolver()),
		consumer.WithGroupName(group),
		consumer.WithInstance(r.instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
}

var (
	routesLock sync.Mutex
	routes     admin.Admin
)

// admin returns the one admin client of this process: the client library gives all of them the same identity.
func (r *run) admin() admin.Admin {
	routesLock.Lock()
	defer routesLock.Unlock()
	if routes == nil {
		made, err := admin.NewAdmin(admin.WithResolver(r.resolver()))
		must("an admin client", err)
		routes = made
	}
	return routes
}

// awaitRoute waits until the name server knows a topic: its first message can be stored before that.
func (r *run) awaitRoute(topic string) {
	var found []*primitive.MessageQueue
	var err error
	r.await("the route of "+topic, 30*time.Second, func() bool {
		found, err = r.admin().FetchPublishMessageQueues(background, topic)
		return err == nil && len(found) > 0
	}, func() any { return fmt.Sprint(found, err) })
}

// brokerName is what the broker calls itself, by the route of the topic that new topics are modelled on.
func (r *run) brokerName() string {
	queues, err := r.admin().FetchPublishMessageQueues(background, "TBW102")
	must("the route of TBW102", err)
	return queues[0].BrokerName
}

// prepareGroup makes a group's retry topic known to the name server. The client looks for routes only when it starts and each 30 s after that, so a
// consumer that starts before gets what it is to consume again half a minute later.
func (r *run) prepareGroup(group string) {
	topic := r.topic("prepare")
	sent(r.producer(), text(topic, "prepare"))
	first := r.pushConsumer(group, topic, everything, (&received{}).handle)
	r.awaitRoute("%RETRY%" + group)
	must("a shutdown", first.Shutdown())
}

func (r *run) closing(closer func() error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.closers = append(r.closers, closer)
}

// close shuts the clients down, the last one first.
func (r *run) close() {
	r.lock.Lock()
	closers := r.closers
	r.closers = nil
	r.lock.Unlock()
	for at := len(closers) - 1; at >= 0; at-- {
		r.setWaiting("a client's shutdown")
		must("a client's shutdown", closers[at]())
	}
}

func (r *run) setWaiting(what string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.waitingFor = what
}

func (r *run) waiting() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.waitingFor
}
