// SPDX-License-Identifier: MIT
//
// node-redlock or redis-semaphore at work: peer.js redlock|redis-semaphore PORT, spoken
// to as peer.py is. Each with the pauses between tries that it has by default. Run it
// where node finds the packages of package.json.
'use strict';

const readline = require('readline');
const Redis = require('ioredis');

const redis = new Redis({ host: '127.0.0.1', port: Number(process.argv[3]) });

function redlock() {
    const Redlock = require('redlock');
    const locks = new Redlock([redis], { retryCount: -1 });
    return async (name) => {
        const lock = await locks.lock(name, 30000);
        return () => lock.unlock();
    };
}

function semaphore() {
    const { Mutex } = require('redis-semaphore');
    return async (name) => {
        const mutex = new Mutex(redis, name, { acquireTimeout: 60000 });
        await mutex.acquire();
        return () => mutex.release();
    };
}

const take = process.argv[2] === 'redlock' ? redlock() : semaphore();

async function work(name, ms) {
    let now = process.hrtime.bigint();
    const end = now + BigInt(ms) * 1000000n;
    let count = 0;
    let longest = 0n;
    while (now < end) {
        const release = await take(name);
        const wait = process.hrtime.bigint() - now;
        longest = wait > longest ? wait : longest;
        await release();
        count += 1;
        now = process.hrtime.bigint();
    }
    return `${count} ${longest / 1000n}`;
}

async function main() {
    await redis.ping();
    console.log('ready');
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [name, ms] = line.split(' ');
        console.log(await work(name, Number(ms)));
    }
    redis.disconnect();
}

main();
