// SPDX-License-Identifier: Apache-2.0
// meshlo launch: a program as the hosts of a slice run it, one process each.
//
// Unlike other verbs, it writes while it runs: the output belongs to the processes.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/launch.h"

static const CliOption kOptions[] = {
    {"on", CLI_TEXT, "TOPOLOGY", "The slice, such as v5e-16 or 2xv5e-16; default: MESHLO_TOPOLOGY."},
    {"hosts", CLI_TEXT, "A,B,…", "Machines to run on, by ssh; each gets as many processes (default: this machine)."},
    {"processes", CLI_INTEGER, "N", "Number of processes, each with a part of the slice (default: one for each host)."},
    {"port", CLI_INTEGER, "P", "The first port on each machine (default: free ones here, 8471 on other machines)."},
    {"grace", CLI_NUMBER, "SECONDS", "How long the others may go on after one has failed (default 3)."},
    {"ssh", CLI_TEXT, "COMMAND", "How to reach other machines (default \"ssh -o BatchMode=yes\")."},
    {"no-prefix", CLI_FLAG, NULL, "Pass output on as it is, without the number of its process."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

static bool is_executable(const char *folder, size_t length, const char *name, size_t name_length) {
    char path[4096];
    if (length + name_length + 2 > sizeof(path)) return false;
    memcpy(path, folder, length);
    path[length] = '/';
    memcpy(path + length + 1, name, name_length);
    path[length + 1 + name_length] = 0;
    return access(path, X_OK) == 0;
}

// The first word of a command must be a program.
static bool is_command(const char *command) {
    const size_t length = strcspn(command, " ");
    if (!length || length >= 4096) return false;
    char word[4096];
    memcpy(word, command, length);
    word[length] = 0;
    if (strchr(word, '/')) return access(word, X_OK) == 0;
    const char *path = getenv("PATH");
    for (const char *at = path; at && *at; at += strcspn(at, ":"), at += *at == ':')
        if (is_executable(at, strcspn(at, ":"), word, length)) return true;
    return false;
}

static HloStatus run_launch(CliContext *context) {
    EmuTopology *topology = NULL;
    LaunchPlan plan;
    const int64_t processes = cli_integer(context, "processes", 0), port = cli_integer(context, "port", 0);
    const char *ssh = cli_text_or(context, "ssh", "ssh -o BatchMode=yes");
    if (cli_flag(context, "processes") && (processes < 1 || processes > 65536))
        return cli_usage_error(context, "--processes expects a number from 1 to 65536, not %lld", (long long)processes);
    if (cli_flag(context, "port") && (port < 1 || port > 65535))
        return cli_usage_error(context, "--port expects a number from 1 to 65535, not %lld", (long long)port);
    if (cli_flag(context, "ssh") && !is_command(ssh)) return cli_usage_error(context, "--ssh %s: not found", ssh);
    HLO_TRY(cli_topology_open(context, cli_text(context, "on"), NULL, &topology));
    HloStatus status = launch_plan(context, topology, processes, cli_text(context, "hosts"), port, &plan);
    if (!status) {
        int exit_code;
        hlo_vector_push(context->arena, &context->arguments, NULL);
        plan.ssh = ssh;
        status = launch_run(context, &plan, context->arguments.items, !cli_flag(context, "no-prefix"),
                            cli_number(context, "grace", 3), &exit_code);
        if (!status) context->exit_code = (CliExit)exit_code;
    }
    launch_plan_free(&plan);
    emu_topology_free(topology);
    return status;
}

const CliVerb cli_verb_launch = {
    .name = "launch",
    .arguments = "-- COMMAND...",
    .summary = "Run a program as the hosts of a slice: one process for each of them.",
    .description =
        "Starts the processes on this machine, or on those of --hosts, with the environment of the hosts of a TPU\n"
        "slice, so that JAX on the plugin and meshlo run play one slice together (docs/hosts.md). Each line of\n"
        "output begins with its process. When a process fails, the others are ended; the exit code is that of the\n"
        "first one that failed, or 128 and the number of the signal that killed it.",
    .examples =
        "meshlo launch --on v5e-16 -- python train.py\n"
        "meshlo launch --on v5e-16 --hosts a,b,c,d -- python train.py --steps 100\n"
        "meshlo launch --on v5e-4 --processes 4 -- meshlo run step.hlo --on v5e-4",
    .least_arguments = 1,
    .most_arguments = 1 << 20,
    .tables = {&kTable},
    .run = run_launch,
};
