/* SPDX-License-Identifier: MIT */
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;

/** The witness of ../table.h: who sits, how many there were, and the last token. */
final class Table implements AutoCloseable {
    private static final int HEAD = 42;
    private static final int SEATS = 16;
    private final RandomAccessFile file;
    private final int seat;
    private int weight = 9;
    private int room = 9;
    private long wrong;

    Table(String kind, String path, int seat) throws IOException {
        String[] parts = kind.split(":");
        if (kind.equals("read")) {
            weight = 1;
        } else if (parts[0].equals("permits")) {
            weight = Integer.parseInt(parts[1]);
            room = Integer.parseInt(parts[2]);
        }
        this.seat = seat;
        file = new RandomAccessFile(path, "rw");
    }

    long wrong() {
        return wrong;
    }

    private int sum() throws IOException {
        byte[] seats = new byte[SEATS];
        file.seek(HEAD);
        file.readFully(seats);
        int sum = 0;
        for (byte digit : seats) {
            sum += digit - '0';
        }
        return sum;
    }

    void sit(long token) throws IOException {
        file.seek(HEAD + seat);
        file.write('0' + weight);
        if (sum() > room) {
            wrong++;
        }
        if (weight == room) {
            count(token);
        }
    }

    private void count(long token) throws IOException {
        byte[] head = new byte[HEAD];
        file.seek(0);
        file.readFully(head);
        String text = new String(head, StandardCharsets.US_ASCII);
        long count = Long.parseLong(text.substring(0, 20));
        long last = Long.parseLong(text.substring(21, 41));
        if (token != 0 && token <= last) {
            wrong++;
        }
        text = String.format("%020d %020d\n", count + 1, token == 0 ? last : token);
        file.seek(0);
        file.write(text.getBytes(StandardCharsets.US_ASCII));
    }

    void rise() throws IOException {
        if (sum() > room) {
            wrong++;
        }
        file.seek(HEAD + seat);
        file.write('0');
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
