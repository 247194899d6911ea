package main

import (
	"fmt"
	"reflect"
	"time"
)

// failed is a check that did not hold; its text is the verdict. It travels as a panic of the scenario's own goroutine, so callbacks of the client
// collect what they see and leave the checks to the scenario.
type failed string

func (f failed) Error() string { return string(f) }

func fail(format string, values ...any) {
	panic(failed(fmt.Sprintf(format, values...)))
}

func must(what string, err error) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func that(holds bool, format string, values ...any) {
	if !holds {
		fail(format, values...)
	}
}

func equal[T any](what string, expected, found T) {
	if !reflect.DeepEqual(expected, found) {
		fail("%s: expected <%v>, found <%v>", what, expected, found)
	}
}

// await polls a condition until it holds; state tells in the verdict how far it came.
func (r *run) await(what string, limit time.Duration, condition func() bool, state func() any) {
	r.setWaiting(what)
	end := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(end) {
			fail("%s: not within %v; reached %v", what, limit, state())
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.setWaiting("nothing")
}
