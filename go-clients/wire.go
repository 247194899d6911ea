package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Requests that the client library sends itself but has no call for.
const (
	queryConsumerOffset = 14
	getMaxOffset        = 30

	codeSuccess       = 0
	codeQueryNotFound = 22
)

type wireHeader struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int               `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields"`
}

// ask sends one request on a connection of its own and returns the answer's code and fields.
func ask(address string, code int, fields map[string]string) (int, map[string]string, error) {
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return 0, nil, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, nil, err
	}
	header, err := json.Marshal(wireHeader{Code: code, Language: "GO", Version: 317, Opaque: 1, ExtFields: fields})
	if err != nil {
		return 0, nil, err
	}
	frame := make([]byte, 8, 8+len(header))
	binary.BigEndian.PutUint32(frame, uint32(4+len(header)))
	binary.BigEndian.PutUint32(frame[4:], uint32(len(header)))
	if _, err := connection.Write(append(frame, header...)); err != nil {
		return 0, nil, err
	}
	var lengths [8]byte
	if _, err := io.ReadFull(connection, lengths[:]); err != nil {
		return 0, nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(lengths[4:])&0xff_ffff)
	if _, err := io.ReadFull(connection, answer); err != nil {
		return 0, nil, err
	}
	var found wireHeader
	if err := json.Unmarshal(answer, &found); err != nil {
		return 0, nil, err
	}
	return found.Code, found.ExtFields, nil
}

// storedOffset is the offset of a group that the broker has, -1 when it has none.
func (r *run) storedOffset(group, topic string, queue int) int64 {
	code, fields, err := ask(r.broker(), queryConsumerOffset, map[string]string{
		"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(queue), "setZeroIfNotFound": "false"})
	must("a query for an offset", err)
	if code == codeQueryNotFound {
		return -1
	}
	equal("the code of a query for an offset", codeSuccess, code)
	return number64(fields["offset"])
}

func (r *run) endOffset(topic string, queue int) int64 {
	code, fields, err := ask(r.broker(), getMaxOffset, map[string]string{"topic": topic, "queueId": strconv.Itoa(queue)})
	must("a query for an end", err)
	equal("the code of a query for an end", codeSuccess, code)
	return number64(fields["offset"])
}

// awaitReadable waits until the queues hold what was sent: a broker stores a message before it enters it into its queue.
func (r *run) awaitReadable(topic string, results []*primitive.SendResult) {
	for _, result := range results {
		end := int64(0)
		r.await(fmt.Sprintf("offset %d of queue %d", result.QueueOffset, result.MessageQueue.QueueId), 20*time.Second, func() bool {
			end = r.endOffset(topic, result.MessageQueue.QueueId)
			return end > result.QueueOffset
		}, func() any { return end })
	}
}

func number64(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	must("a number in an answer", err)
	return number
}

// awaitStoredOffsets waits until the broker has a group's offsets at the ends of all queues of a topic that hold messages. A consumer that shuts down
// sends its offsets one-way: its successor could ask before they are there.
func (r *run) awaitStoredOffsets(group, topic string) {
	queues, err := r.admin().FetchPublishMessageQueues(background, topic)
	must("the route of "+topic, err)
	for _, queue := range queues {
		end := r.endOffset(topic, queue.QueueId)
		if end == 0 {
			continue
		}
		stored := int64(0)
		r.await(fmt.Sprintf("the stored offset %d of queue %d", end, queue.QueueId), 20*time.Second, func() bool {
			stored = r.storedOffset(group, topic, queue.QueueId)
			return stored == end
		}, func() any { return stored })
	}
}
