// SPDX-License-Identifier: MIT

// redsync's side of a pair: peer PORT. Understands take, drop, loop and contest of
// ../../peer.c for the kind mutex: a redsync mutex on one server, which is what
// layout=simple shares.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	head        = 42
	seats       = 16
	forever     = 1 << 30
	contestHold = 500 * time.Microsecond
)

var (
	sync *redsync.Redsync
	held = map[string]*redsync.Mutex{}
)

// The witness of ../../table.h, for those who are alone.
type table struct {
	file  *os.File
	seat  int64
	wrong int
}

func (t *table) check() {
	line := make([]byte, seats)
	t.file.ReadAt(line, head)
	sum := 0
	for _, digit := range line {
		sum += int(digit - '0')
	}
	if sum > 9 {
		t.wrong++
	}
}

func (t *table) sit() {
	t.file.WriteAt([]byte("9"), head+t.seat)
	t.check()
	line := make([]byte, head)
	t.file.ReadAt(line, 0)
	word := strings.Fields(string(line))
	count, _ := strconv.ParseUint(word[0], 10, 64)
	t.file.WriteAt([]byte(fmt.Sprintf("%020d %s\n", count+1, word[1])), 0)
}

func (t *table) rise() {
	t.check()
	t.file.WriteAt([]byte("0"), head+t.seat)
}

func number(text string) int {
	value, _ := strconv.Atoi(text)
	return value
}

// Looks every 20 ms, or, in a contest, as redsync does by default.
func take(name string, waitMs, ttlMs int, contest bool) string {
	options := []redsync.Option{redsync.WithExpiry(time.Duration(ttlMs) * time.Millisecond)}
	switch {
	case contest || waitMs < 0:
		options = append(options, redsync.WithTries(forever))
	default:
		options = append(options, redsync.WithTries(1+waitMs/20))
	}
	if !contest {
		options = append(options, redsync.WithRetryDelay(20*time.Millisecond))
	}
	mutex := sync.NewMutex(name, options...)
	err := mutex.Lock()
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		if waitMs == 0 {
			return "busy"
		}
		return "timeout"
	}
	if err != nil {
		return "error " + err.Error()
	}
	held[name] = mutex
	return "held 0"
}

func drop(name string) string {
	if ok, err := held[name].Unlock(); !ok || err != nil {
		return "lost"
	}
	return "dropped"
}

func loop(name string, ms int, path string, seat int, contest bool) string {
	end := time.Now().Add(time.Duration(ms) * time.Millisecond)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "error " + err.Error()
	}
	defer file.Close()
	witness := table{file: file, seat: int64(seat)}
	rounds, longest := 0, time.Duration(0)
	for time.Now().Before(end) {
		since := time.Now()
		if answer := take(name, 60000, 30000, contest); answer != "held 0" {
			return answer
		}
		longest = max(longest, time.Since(since))
		witness.sit()
		if contest {
			time.Sleep(contestHold) // pause: what is done under the lock
		}
		witness.rise()
		rounds++
		if answer := drop(name); answer != "dropped" {
			return answer
		}
	}
	return fmt.Sprintf("done %d %d %d", rounds, witness.wrong, longest.Milliseconds())
}

func obey(word []string) string {
	switch {
	case len(word) == 5 && word[0] == "take":
		return take(word[2], number(word[3]), number(word[4]), false)
	case len(word) == 3 && word[0] == "drop":
		return drop(word[2])
	case len(word) == 6 && (word[0] == "loop" || word[0] == "contest"):
		return loop(word[2], number(word[3]), word[4], number(word[5]), word[0] == "contest")
	}
	return "what?"
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/go-redsync/redsync/v4" {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "unknown"
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1]})
	sync = redsync.New(goredis.NewPool(client))
	fmt.Println("ready redsync", version())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(obey(strings.Fields(lines.Text())))
	}
}
