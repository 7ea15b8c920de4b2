// SPDX-License-Identifier: Apache-2.0
// Runs the processes of a launch together.
//
// One thread polls the pipes of all processes and a pipe into which the signal handler writes. Each process leads a
// group of its own, so that what it starts ends with it. None outlives this process: a guardian, which holds the other
// end of a pipe, kills all groups when this process is gone without having said that it is done.
//
// A process on another machine is an ssh whose standard input is a shell script: that sets the environment (a secret
// has no place on a command line) and starts the program, which it ends when its input ends.
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/launch.h"

extern char **environ;

enum {
    kLineBytes = 1 << 16,     // a longer line is passed on in parts
    kKillSeconds = 5,         // from the request to end until a process is killed
    kNotStarted = 127,        // the exit code of a command that cannot be run, as in a shell
    kKilledBySignal = 128,    // added to a signal's number
    kTickMilliseconds = 100,  // between looks at the clock
};

// One stream of a process, line by line.
typedef struct Stream {
    int descriptor;  // -1: over
    int to;          // the descriptor of ours that it is passed on to
    char *line;      // kLineBytes
    size_t length;
} Stream;

typedef struct Child {
    const LaunchProcess *process;
    pid_t pid;
    bool has_ended;
    int status;  // of waitpid()
    int input;   // of an ssh; -1 otherwise
    Stream streams[2];
} Child;

// What the launch is doing: each state lasts until its deadline.
typedef enum State { RUNNING, FAILED, TERMINATED, KILLED } State;

typedef struct Launch {
    CliContext *context;
    const LaunchPlan *plan;
    const char *const *command;
    Child *children;
    int64_t started;
    bool with_prefix;
    double grace;
    State state;
    double deadline;
    int exit_code;
    int guardian;  // the pipe to the guardian
    pid_t guardian_pid;
    hwloc_topology_t tree;  // NULL: processes are not bound
    hwloc_cpuset_t *sets;   // for each process on this machine
} Launch;

// ---- signals

static int signal_pipe[2] = {-1, -1};
static const int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// Only writes the signal's number: everything else is done by the loop.
static void note_signal(int number) {
    const int saved = errno;
    const unsigned char byte = (unsigned char)number;
    const ssize_t written = write(signal_pipe[1], &byte, 1);
    (void)written;  // a full pipe holds signals enough
    errno = saved;
}

static HloStatus watch_signals(void) {
    HLO_FAIL_IF(pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK), HLO_UNAVAILABLE, "no pipe: %s", strerror(errno));
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &action, NULL);
    for (size_t i = 0; i < HLO_COUNT_OF(kForwarded); i++) {
        struct sigaction before;
        sigaction(kForwarded[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) sigaction(kForwarded[i], &action, NULL);  // nohup stays nohup
    }
    return HLO_SUCCESS;
}

static void signal_all(const Launch *launch, int number) {
    for (int64_t i = 0; i < launch->started; i++) {
        const Child *child = &launch->children[i];
        // An ssh does not pass signals on: the end of its input asks for the end there.
        if (child->process->host && number != SIGKILL) continue;
        // Its group may hold what it has started, even when it has ended itself.
        if (child->pid > 0 && (number == SIGKILL || !child->has_ended)) kill(-child->pid, number);
    }
}

// Ends the input of each ssh, and with it what runs on the other machine.
static void end_inputs(Launch *launch) {
    for (int64_t i = 0; i < launch->started; i++) {
        Child *child = &launch->children[i];
        if (child->input >= 0) close(child->input);
        child->input = -1;
    }
}

// ---- the guardian

// Kills the groups whose numbers it has read when the pipe ends before a 0 has come.
static _Noreturn void guard(int input) {
    pid_t groups[4096], group;
    size_t count = 0;
    setsid();
    for (;;) {
        const ssize_t size = read(input, &group, sizeof(group));
        if (size < 0 && errno == EINTR) continue;
        if (size != (ssize_t)sizeof(group)) break;
        if (group == 0) _exit(0);
        if (count < HLO_COUNT_OF(groups)) groups[count++] = group;
    }
    for (size_t i = 0; i < count; i++) kill(-groups[i], SIGKILL);
    _exit(0);
}

static HloStatus start_guardian(Launch *launch) {
    int ends[2];
    HLO_FAIL_IF(pipe2(ends, O_CLOEXEC), HLO_UNAVAILABLE, "no pipe: %s", strerror(errno));
    launch->guardian_pid = fork();
    if (launch->guardian_pid == 0) {
        close(ends[1]);
        const int nowhere = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3 && nowhere >= 0; i++) dup2(nowhere, i);
        guard(ends[0]);
    }
    close(ends[0]);
    launch->guardian = ends[1];
    HLO_FAIL_IF(launch->guardian_pid < 0, HLO_UNAVAILABLE, "no process: %s", strerror(errno));
    return HLO_SUCCESS;
}

static void tell_guardian(const Launch *launch, pid_t group) {
    while (write(launch->guardian, &group, sizeof(group)) < 0 && errno == EINTR) {
    }
}

// ---- cores

// Gives the processes of this machine disjoint cores, near each other, if there are as many; else the threads of each
// are limited by MESHLO_NUM_THREADS.
static void plan_cores(Launch *launch) {
    int64_t here = 0;
    for (int64_t i = 0; i < launch->plan->count; i++) here += !launch->plan->processes[i].host;
    if (here < 2 || hwloc_topology_init(&launch->tree)) return;
    hwloc_topology_set_io_types_filter(launch->tree, HWLOC_TYPE_FILTER_KEEP_NONE);
    const bool loaded = hwloc_topology_load(launch->tree) == 0 && hwloc_topology_is_thissystem(launch->tree);
    const hwloc_bitmap_t allowed = loaded ? hwloc_bitmap_alloc() : NULL;
    const bool known = allowed && hwloc_get_cpubind(launch->tree, allowed, HWLOC_CPUBIND_PROCESS) == 0 &&
                       hwloc_topology_restrict(launch->tree, allowed, 0) == 0;
    const int cores = known ? hwloc_get_nbobjs_by_type(launch->tree, HWLOC_OBJ_CORE) : 0;
    if (cores >= here) {
        hwloc_obj_t root = hwloc_get_root_obj(launch->tree);
        launch->sets = HLO_ARENA_NEW(launch->context->arena, hwloc_cpuset_t, here);
        if (hwloc_distrib(launch->tree, &root, 1, launch->sets, (unsigned)here, INT_MAX, 0)) launch->sets = NULL;
    }
    hwloc_bitmap_free(allowed);
}

static void free_cores(Launch *launch) {
    for (int64_t i = 0, here = 0; launch->sets && i < launch->plan->count; i++)
        if (!launch->plan->processes[i].host) hwloc_bitmap_free(launch->sets[here++]);
    if (launch->tree) hwloc_topology_destroy(launch->tree);
}

// ---- starting

static void set_variables(const LaunchVariable *variables, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (variables[i].value)
            setenv(variables[i].name, variables[i].value, 1);
        else
            unsetenv(variables[i].name);
    }
}

// In the new process, up to the command. What goes wrong is written to `report`, which the command closes.
static _Noreturn void become(const Launch *launch, const Child *child, const LaunchVariable *variables, int64_t count,
                             int input, int report, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotStarted);
    for (size_t i = 0; i < HLO_COUNT_OF(kForwarded); i++) {
        struct sigaction before;
        sigaction(kForwarded[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) signal(kForwarded[i], SIG_DFL);
    }
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    dup2(input, STDIN_FILENO);
    if (!child->process->host) {
        set_variables(variables, count);
        const int64_t slot = child->process->host_slot;
        if (launch->sets) hwloc_set_cpubind(launch->tree, launch->sets[slot], HWLOC_CPUBIND_PROCESS);
        if (!launch->sets && launch->tree) setenv("MESHLO_NUM_THREADS", "1", 0);
        execvp(launch->command[0], (char *const *)(uintptr_t)launch->command);
    } else {
        HLO_VECTOR(char *) words = {0};
        HloArena *arena = launch->context->arena;
        for (const char *at = launch->plan->ssh + strspn(launch->plan->ssh, " "); *at; at += strspn(at, " ")) {
            const size_t length = strcspn(at, " ");
            hlo_vector_push(arena, &words, hlo_arena_string(arena, at, length));
            at += length;
        }
        hlo_vector_push(arena, &words, hlo_arena_text(arena, child->process->host));
        hlo_vector_push(arena, &words, hlo_arena_text(arena, "exec sh -s"));
        hlo_vector_push(arena, &words, NULL);
        execvp(words.items[0], words.items);
    }
    const int error = errno;
    const ssize_t written = write(report, &error, sizeof(error));
    (void)written;
    _exit(kNotStarted);
}

// Appends a word as a shell reads it back.
static void quote(HloText *text, const char *word) {
    hlo_text_char(text, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            hlo_text_string(text, "'\\''");
        else
            hlo_text_char(text, *word);
    }
    hlo_text_char(text, '\'');
}

// Whether another machine's process gets a variable of ours.
static bool travels(const char *assignment) {
    static const char *const kPrefixes[] = {"MESHLO_", "JAX_", "XLA_", "TPU_LIBRARY_PATH=", "PYTHONPATH=", "UCX_"};
    for (size_t i = 0; i < HLO_COUNT_OF(kPrefixes); i++)
        if (strncmp(assignment, kPrefixes[i], strlen(kPrefixes[i])) == 0) return true;
    return false;
}

// The script for the shell on another machine. It is read whole before its last line runs it. The program gets a group
// of its own; `cat` waits for the end of the input, which is the end of ssh, in another one: what kills the group of
// the shell must not kill what ends the program.
static const char *remote_script(const Launch *launch, const LaunchVariable *variables, int64_t count) {
    HloText text = {0};
    char *folder = getcwd(NULL, 0);
    hlo_text_string(&text, "run() {\n");
    for (char **at = environ; *at; at++) {
        if (!travels(*at)) continue;
        hlo_text_string(&text, "export ");
        quote(&text, *at);
        hlo_text_char(&text, '\n');
    }
    for (int64_t i = 0; i < count; i++) {
        if (!variables[i].value) {
            hlo_text_format(&text, "unset %s\n", variables[i].name);
            continue;
        }
        hlo_text_format(&text, "export %s=", variables[i].name);
        quote(&text, variables[i].value);
        hlo_text_char(&text, '\n');
    }
    hlo_text_string(&text, "cd ");
    quote(&text, folder ? folder : "/");
    hlo_text_string(&text, " || exit 127\nexec 3<&0\nsetsid");
    for (const char *const *word = launch->command; *word; word++) {
        hlo_text_char(&text, ' ');
        quote(&text, *word);
    }
    hlo_text_format(&text,
                    " 3<&- </dev/null &\np=$!\n"
                    "setsid sh -c \"cat; kill -TERM -$p && sleep %d; kill -KILL -$p\" <&3 >/dev/null 2>&1 &\n"
                    "w=$!\nwait $p\nr=$?\nkill -KILL -$p 2>/dev/null\nkill -KILL -$w 2>/dev/null\nexit $r\n}\nrun\n",
                    kKillSeconds);
    free(folder);
    return hlo_text_to_arena(launch->context->arena, &text);
}

// Starts one process. The pipe to an ssh stays open, with the script in it.
static HloStatus spawn(Launch *launch, Child *child) {
    int out[2], err[2], report[2], input[2] = {-1, -1}, error = 0;
    int64_t count;
    const LaunchVariable *variables = launch_variables(launch->context, launch->plan, child->process, &count);
    const char *script = child->process->host ? remote_script(launch, variables, count) : NULL;
    const pid_t parent = getpid();
    HLO_FAIL_IF(pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(report, O_CLOEXEC) ||
                    (script && pipe2(input, O_CLOEXEC)),
                HLO_UNAVAILABLE, "no pipe: %s", strerror(errno));
    if (!script) input[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    child->pid = fork();
    if (child->pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        become(launch, child, variables, count, input[0], report[1], parent);
    }
    const int fork_error = errno;
    close(out[1]);
    close(err[1]);
    close(report[1]);
    close(input[0]);
    if (child->pid > 0) {
        setpgid(child->pid, child->pid);
        tell_guardian(launch, child->pid);
    }
    const ssize_t size = child->pid > 0 ? read(report[0], &error, sizeof(error)) : 0;
    close(report[0]);
    child->streams[0] = (Stream){.descriptor = out[0], .to = STDOUT_FILENO};
    child->streams[1] = (Stream){.descriptor = err[0], .to = STDERR_FILENO};
    child->input = input[1];
    for (int i = 0; i < 2; i++) {
        fcntl(child->streams[i].descriptor, F_SETFL, O_NONBLOCK);
        child->streams[i].line = HLO_ARENA_NEW(launch->context->arena, char, kLineBytes);
    }
    HLO_FAIL_IF(child->pid < 0, HLO_UNAVAILABLE, "no process: %s", strerror(fork_error));
    HLO_FAIL_IF(size == (ssize_t)sizeof(error), HLO_NOT_FOUND, "cannot run %s: %s",
                script ? launch->plan->ssh : launch->command[0], strerror(error));
    for (size_t done = 0, length = script ? strlen(script) : 0; done < length;) {
        const ssize_t written = write(child->input, script + done, length - done);
        if (written < 0 && errno != EINTR) break;  // ssh has ended, which the loop reports
        if (written > 0) done += (size_t)written;
    }
    return HLO_SUCCESS;
}

// ---- output

static void write_all(int descriptor, const char *data, size_t length) {
    while (length > 0) {
        const ssize_t written = write(descriptor, data, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return;  // the reader has gone
        data += written;
        length -= (size_t)written;
    }
}

// Writes the line with its prefix in one call, so that lines of processes do not mix.
static void pass_on(const Launch *launch, const Child *child, Stream *stream) {
    HloText text = {0};
    if (launch->with_prefix) hlo_text_format(&text, "[%s] ", child->process->name);
    hlo_text_append(&text, stream->line, stream->length);
    if (launch->with_prefix && (!stream->length || stream->line[stream->length - 1] != '\n'))
        hlo_text_char(&text, '\n');
    write_all(stream->to, text.data, text.length);
    hlo_text_free(&text);
    stream->length = 0;
}

// Reads what there is. At the end, a last line without a newline is passed on too.
static void drain(const Launch *launch, Child *child, Stream *stream) {
    char buffer[4096];
    for (;;) {
        const ssize_t size = read(stream->descriptor, buffer, sizeof(buffer));
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) break;
        for (ssize_t i = 0; i < size; i++) {
            stream->line[stream->length++] = buffer[i];
            if (buffer[i] == '\n' || stream->length == kLineBytes) pass_on(launch, child, stream);
        }
        if (!launch->with_prefix && stream->length) pass_on(launch, child, stream);
    }
    if (stream->length) pass_on(launch, child, stream);
    close(stream->descriptor);
    stream->descriptor = -1;
}

// ---- ends

static int exit_code_of(int status) {
    return WIFSIGNALED(status) ? kKilledBySignal + WTERMSIG(status) : WEXITSTATUS(status);
}

// Tells how the first process that failed has ended, and begins to end the others.
static void fail(Launch *launch, const Child *child) {
    int64_t left = 0;
    for (int64_t i = 0; i < launch->started; i++) left += !launch->children[i].has_ended;
    HloText text = {0};
    hlo_text_format(&text, "meshlo launch: process %s ", child->process->name);
    if (WIFSIGNALED(child->status))
        hlo_text_format(&text, "was killed by signal %d (%s)", WTERMSIG(child->status),
                        strsignal(WTERMSIG(child->status)));
    else
        hlo_text_format(&text, "exited with code %d", WEXITSTATUS(child->status));
    if (left) hlo_text_format(&text, "; %lld other%s will be ended", (long long)left, left > 1 ? "s" : "");
    hlo_text_char(&text, '\n');
    write_all(STDERR_FILENO, text.data, text.length);
    hlo_text_free(&text);
    launch->exit_code = exit_code_of(child->status);
    launch->state = FAILED;
    launch->deadline = cli_seconds() + launch->grace;
}

// Collects processes that have ended. A failure that this reports first is one by a signal, if there is one: the others
// fail because of it.
static void reap(Launch *launch) {
    const Child *failed = NULL;
    for (int64_t i = 0; i < launch->started; i++) {
        Child *child = &launch->children[i];
        if (child->has_ended || waitpid(child->pid, &child->status, WNOHANG) != child->pid) continue;
        child->has_ended = true;
        for (int s = 0; s < 2; s++)
            if (child->streams[s].descriptor >= 0) drain(launch, child, &child->streams[s]);
        if (!child->status) continue;
        if (!failed || (WIFSIGNALED(child->status) && !WIFSIGNALED(failed->status))) failed = child;
    }
    if (failed && launch->state == RUNNING) fail(launch, failed);
}

static void terminate(Launch *launch) {
    signal_all(launch, SIGTERM);
    signal_all(launch, SIGCONT);  // one that is stopped ends too
    end_inputs(launch);
    launch->state = TERMINATED;
    launch->deadline = cli_seconds() + kKillSeconds;
}

// After a deadline: the next way to end a process.
static void escalate(Launch *launch) {
    if (launch->state == FAILED) {
        terminate(launch);
    } else if (launch->state == TERMINATED) {
        signal_all(launch, SIGKILL);
        launch->state = KILLED;
        launch->deadline = cli_seconds() + kKillSeconds;
    }
}

// Passes signals on. One that asks for the end gives the processes time for it; the second one does not.
static void handle_signals(Launch *launch) {
    unsigned char number;
    while (read(signal_pipe[0], &number, 1) == 1) {
        if (number == SIGCHLD) continue;
        const bool ends = number != SIGUSR1 && number != SIGUSR2;
        if (!ends || launch->state == RUNNING || launch->state == FAILED) signal_all(launch, number);
        if (!ends) continue;
        end_inputs(launch);
        if (launch->state >= TERMINATED) {
            launch->deadline = 0;
        } else {
            if (launch->state == RUNNING) launch->exit_code = kKilledBySignal + number;
            launch->state = TERMINATED;
            launch->deadline = cli_seconds() + kKillSeconds;
        }
    }
    reap(launch);
}

static bool all_ended(const Launch *launch) {
    for (int64_t i = 0; i < launch->started; i++)
        if (!launch->children[i].has_ended) return false;
    return true;
}

static void loop(Launch *launch) {
    struct pollfd *polled = HLO_ARENA_NEW(launch->context->arena, struct pollfd, 2 * launch->started + 1);
    Stream **streams = HLO_ARENA_NEW(launch->context->arena, Stream *, 2 * launch->started + 1);
    Child **owners = HLO_ARENA_NEW(launch->context->arena, Child *, 2 * launch->started + 1);
    while (!all_ended(launch)) {
        nfds_t count = 1;
        polled[0] = (struct pollfd){.fd = signal_pipe[0], .events = POLLIN};
        for (int64_t i = 0; i < 2 * launch->started; i++) {
            Child *child = &launch->children[i / 2];
            if (child->streams[i % 2].descriptor < 0) continue;
            owners[count] = child;
            streams[count] = &child->streams[i % 2];
            polled[count] = (struct pollfd){.fd = streams[count]->descriptor, .events = POLLIN};
            count++;
        }
        const int ready = poll(polled, count, launch->state == RUNNING ? -1 : kTickMilliseconds);
        for (nfds_t i = 1; ready > 0 && i < count; i++)
            if (polled[i].revents && streams[i]->descriptor >= 0) drain(launch, owners[i], streams[i]);
        handle_signals(launch);
        if (launch->state != RUNNING && cli_seconds() >= launch->deadline) escalate(launch);
    }
}

// Ends what is left: what processes have started and left behind, the guardian, descriptors.
static void close_launch(Launch *launch) {
    signal_all(launch, SIGKILL);
    for (int64_t i = 0; i < launch->started; i++) {
        Child *child = &launch->children[i];
        while (!child->has_ended && waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR) {
        }
        for (int s = 0; s < 2; s++)
            if (child->streams[s].descriptor >= 0) drain(launch, child, &child->streams[s]);
        if (child->input >= 0) close(child->input);
    }
    tell_guardian(launch, 0);
    close(launch->guardian);
    while (waitpid(launch->guardian_pid, NULL, 0) < 0 && errno == EINTR) {
    }
    free_cores(launch);
}

HloStatus launch_run(CliContext *context, const LaunchPlan *plan, const char *const *command, bool with_prefix,
                     double grace_seconds, int *exit_code) {
    Launch launch = {.context = context,
                     .plan = plan,
                     .command = command,
                     .with_prefix = with_prefix,
                     .grace = grace_seconds,
                     .children = HLO_ARENA_NEW(context->arena, Child, plan->count)};
    HLO_TRY(watch_signals());
    HLO_TRY(start_guardian(&launch));
    plan_cores(&launch);
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < plan->count && !status; i++) {
        Child *child = &launch.children[i];
        *child = (Child){.process = &plan->processes[i], .input = -1};
        status = spawn(&launch, child);
        launch.started += child->pid > 0;
    }
    if (!status) loop(&launch);
    close_launch(&launch);
    *exit_code = launch.exit_code;
    return status;
}
