package main

import (
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
)

func registerAdmin() {
	core("admin-topics", adminTopics)
	core("admin-groups", adminGroups)
}

// adminTopics: a topic is made, listed, used, and deleted.
func adminTopics(r *run) string {
	topic := r.topic("admin")
	must("creating a topic", r.admin().CreateTopic(background, admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(r.broker()),
		admin.WithReadQueueNums(3), admin.WithWriteQueueNums(3)))
	r.awaitRoute(topic)
	queues, err := r.admin().FetchPublishMessageQueues(background, topic)
	must("the topic's queues", err)
	equal("queues", 3, len(queues))
	listed := func() bool {
		list, err := r.admin().FetchAllTopicList(background)
		must("the list of topics", err)
		for _, each := range list.TopicList {
			if each == topic {
				return true
			}
		}
		return false
	}
	that(listed(), "the new topic is not listed")
	equal("queues of 9 messages", 3, contiguous(send(r.producer(), topic, "admin", 9)))
	must("deleting the topic", r.admin().DeleteTopic(background, admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(r.broker())))
	// The broker may be registering its topics at this moment.
	r.await("the deletion", 30*time.Second, func() bool { return !listed() }, func() any { return listed() })
	return "made with 3 queues, listed, used, deleted"
}

// adminGroups: the list of groups has one that came by use.
func adminGroups(r *run) string {
	topic, group := r.topic("groups"), r.group("groups")
	send(r.producer(), topic, "groups", 4)
	got := &received{}
	r.pushConsumer(group, topic, everything, got.handle)
	got.await(r, 4, 30*time.Second)
	wrapper, err := r.admin().GetAllSubscriptionGroup(background, r.broker(), 5*time.Second)
	must("the list of groups", err)
	found, there := wrapper.SubscriptionGroupTable[group]
	that(there, "the group is not listed")
	equal("its name", group, found.GroupName)
	equal("its attempts", 16, found.RetryMaxTimes)
	return fmt.Sprintf("%d groups", len(wrapper.SubscriptionGroupTable))
}
