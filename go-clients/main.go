// Command scenarios runs small programs on the official, unmodified Go client against a name server and a broker.
//
//	scenarios NAME[,NAME...] --namesrv ADDR --broker ADDR [--parallel N] [--KEY VALUE ...]
//	scenarios list
//
// Each scenario ends in exactly one line "VERDICT NAME PASS|FAIL details". The exit code is 0 when all passed, 1 when one failed, 2 when the
// arguments are wrong. "core" stands for every scenario that needs nothing but the two servers with their usual settings.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// scenario is one program: what it does, how long it may take, and whether it is one of the core.
type scenario struct {
	name  string
	core  bool
	limit time.Duration
	body  func(*run) string
}

var scenarios []scenario

func core(name string, body func(*run) string) {
	scenarios = append(scenarios, scenario{name, true, 90 * time.Second, body})
}

// part registers a scenario that needs settings of the broker, or is a piece of a longer story that is told by options.
func part(name string, body func(*run) string) {
	scenarios = append(scenarios, scenario{name, false, 90 * time.Second, body})
}

func main() {
	rlog.SetLogLevel("warn")
	registerSend()
	registerPush()
	registerOrder()
	registerPull()
	registerRetry()
	registerReply()
	registerAdmin()
	registerSettings()
	registerRestart()
	sort.Slice(scenarios, func(i, j int) bool { return scenarios[i].name < scenarios[j].name })
	if len(os.Args) == 2 && os.Args[1] == "list" {
		for _, each := range scenarios {
			fmt.Println(each.name, map[bool]string{true: "core", false: "part"}[each.core])
		}
		return
	}
	chosen, options, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(os.Stderr, "usage: scenarios NAME[,NAME...] --namesrv ADDR --broker ADDR [--parallel N] [--KEY VALUE ...]   (scenarios list: the names)")
		os.Exit(2)
	}
	if !runAll(chosen, options) {
		os.Exit(1)
	}
}

func parse(args []string) ([]scenario, map[string]string, error) {
	if len(args) == 0 {
		return nil, nil, fmt.Errorf("which scenario?")
	}
	var chosen []scenario
	for _, name := range strings.Split(args[0], ",") {
		found := false
		for _, each := range scenarios {
			if each.name == name || name == "core" && each.core {
				chosen = append(chosen, each)
				found = true
			}
		}
		if !found {
			return nil, nil, fmt.Errorf("no scenario is called %s", name)
		}
	}
	options := map[string]string{"parallel": "8"}
	for i := 1; i < len(args); i += 2 {
		if !strings.HasPrefix(args[i], "--") || i+1 == len(args) {
			return nil, nil, fmt.Errorf("expected --KEY VALUE at %s", args[i])
		}
		options[args[i][2:]] = args[i+1]
	}
	for _, key := range []string{"namesrv", "broker"} {
		if options[key] == "" {
			return nil, nil, fmt.Errorf("--%s is missing", key)
		}
	}
	if number, err := strconv.Atoi(options["parallel"]); err != nil || number < 1 {
		return nil, nil, fmt.Errorf("--parallel is not a number above 0: %s", options["parallel"])
	}
	return chosen, options, nil
}

func runAll(chosen []scenario, options map[string]string) bool {
	parallel, _ := strconv.Atoi(options["parallel"])
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	var lock sync.Mutex
	passed := true
	for at := range chosen {
		at, each := at, chosen[at]
		running.Add(1)
		slots <- struct{}{}
		go func() {
			defer running.Done()
			line, ok := runOne(each, newRun(each.name, at, options))
			lock.Lock()
			defer lock.Unlock()
			fmt.Println(line)
			passed = passed && ok
			<-slots
		}()
	}
	running.Wait()
	return passed
}

// runOne runs a scenario within its limit and returns its verdict.
func runOne(each scenario, r *run) (string, bool) {
	begin := time.Now()
	done := make(chan error, 1)
	details := ""
	go func() {
		var outcome error
		defer func() {
			if reason := recover(); reason != nil {
				found, isCheck := reason.(failed)
				if !isCheck {
					panic(reason)
				}
				outcome = found
			}
			done <- outcome
		}()
		details = each.body(r)
		r.close()
	}()
	word := "PASS"
	select {
	case err := <-done:
		if err != nil {
			word, details = "FAIL", err.Error()
			// The clients of a failed scenario are left to the end of the process: their shutdown may hang.
		}
	case <-time.After(each.limit):
		word, details = "FAIL", fmt.Sprintf("not finished after %v, waiting for: %s", each.limit, r.waiting())
	}
	details = strings.ReplaceAll(details, "\n", " ")
	return fmt.Sprintf("VERDICT %s %s %s (%d ms)", each.name, word, details, time.Since(begin).Milliseconds()), word == "PASS"
}
