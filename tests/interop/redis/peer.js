// SPDX-License-Identifier: MIT
//
// node-redlock's side of a pair: peer.js PORT. Understands take, drop, loop and
// contest of ../peer.c for the kind mutex: a redlock lock on one server, which is what
// layout=simple shares. Run it where node finds the packages of package.json.
'use strict';

const fs = require('fs');
const readline = require('readline');
const Redis = require('ioredis');
const Redlock = require('redlock');

const HEAD = 42;
const SEATS = 16;
const CONTEST_HOLD_NS = 500000n;
const held = new Map();
const redis = new Redis({ host: '127.0.0.1', port: Number(process.argv[2]) });

// One redlock per way of waiting: retryCount 0 tries once.
function redlock(waitMs) {
    const retryDelay = 20;
    const retryCount = waitMs < 0 ? -1 : Math.ceil(waitMs / retryDelay);
    return new Redlock([redis], { retryCount, retryDelay, retryJitter: 0 });
}

// The witness of ../table.h, for those who are alone.
class Table {
    constructor(path, seat) {
        this.file = fs.openSync(path, 'r+');
        this.seat = seat;
        this.wrong = 0;
    }

    check() {
        const seats = Buffer.alloc(SEATS);
        fs.readSync(this.file, seats, 0, SEATS, HEAD);
        const sum = seats.reduce((total, digit) => total + digit - 48, 0);
        this.wrong += sum > 9 ? 1 : 0;
    }

    sit() {
        const head = Buffer.alloc(HEAD);
        fs.writeSync(this.file, '9', HEAD + this.seat);
        this.check();
        fs.readSync(this.file, head, 0, HEAD, 0);
        const [count, last] = head.toString().trim().split(' ');
        const next = String(Number(count) + 1).padStart(20, '0');
        fs.writeSync(this.file, `${next} ${last}\n`, 0);
    }

    rise() {
        this.check();
        fs.writeSync(this.file, '0', HEAD + this.seat);
    }
}

async function take(name, waitMs, ttlMs, lock = redlock(waitMs)) {
    try {
        held.set(name, await lock.lock(name, ttlMs || 30000));
        return 'held 0';
    } catch (error) {
        if (error.name !== 'LockError') {
            throw error;
        }
        return waitMs === 0 ? 'busy' : 'timeout';
    }
}

async function drop(name) {
    try {
        await held.get(name).unlock();
        return 'dropped';
    } catch (error) {
        return 'lost';
    }
}

// What is done under the lock in a contest.
function work() {
    const end = process.hrtime.bigint() + CONTEST_HOLD_NS;
    while (process.hrtime.bigint() < end) {
    }
}

async function loop(name, ms, path, seat, contest) {
    const end = Date.now() + ms;
    const table = new Table(path, seat);
    // Redlock's own delays in a contest, but for as long as it takes.
    const lock = contest ? new Redlock([redis], { retryCount: -1 }) : redlock(60000);
    let longest = 0;
    let rounds = 0;
    while (Date.now() < end) {
        const since = Date.now();
        let answer = await take(name, 60000, 30000, lock);
        if (answer !== 'held 0') {
            return answer;
        }
        longest = Math.max(longest, Date.now() - since);
        table.sit();
        if (contest) {
            work();
        }
        table.rise();
        rounds += 1;
        answer = await drop(name);
        if (answer !== 'dropped') {
            return answer;
        }
    }
    return `done ${rounds} ${table.wrong} ${longest}`;
}

async function obey(word) {
    switch (word[0]) {
    case 'take':
        return take(word[2], Number(word[3]), Number(word[4]));
    case 'drop':
        return drop(word[2]);
    case 'loop':
    case 'contest':
        return loop(word[2], Number(word[3]), word[4], Number(word[5]),
            word[0] === 'contest');
    default:
        return 'what?';
    }
}

async function main() {
    const version = require('redlock/package.json').version;
    console.log(`ready node-redlock ${version}`);
    for await (const line of readline.createInterface({ input: process.stdin })) {
        try {
            console.log(await obey(line.split(' ')));
        } catch (error) {
            console.log(`error ${error}`);
        }
    }
    redis.disconnect();
}

main();
