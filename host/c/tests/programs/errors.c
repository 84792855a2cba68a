/* Every kind of mistake, one line each: its name, the status, whose fault, and the sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpunet/gpunet.h>

static void tell(const char *what, gpunet_status status)
{
    if (status == GPUNET_OK) {
        printf("%s: GPUNET_OK\n", what);
    } else {
        printf("%s: %s, %s: %s\n", what, gpunet_status_name(status), gpunet_status_blame(status),
               gpunet_last_error());
    }
    fflush(stdout);
}

/* What must work for the rest to mean something. */
static void must(gpunet_status status)
{
    if (status != GPUNET_OK) {
        fprintf(stderr, "%s: %s\n", gpunet_status_name(status), gpunet_last_error());
        exit(1);
    }
}

static void load(gpunet_host_gpu *gpu, const char *what, const char *path)
{
    gpunet_host_image *image = (gpunet_host_image *)8;
    tell(what, gpunet_image_load_file(gpu, what, path, &image));
    if (image != NULL) {
        fprintf(stderr, "%s: a handle of what was not loaded\n", what);
        exit(1);
    }
}

/* gpu, net and image are open: what a launch may get wrong. */
static void launches(gpunet_host_gpu *gpu, gpunet_host_net *net, gpunet_host_image *image)
{
    gpunet_host_launch *launch = NULL;
    uint64_t socket = 1;
    uint32_t word = 0;
    gpunet_shape shape = {{1}, {32}, 0, 0};
    gpunet_argument right = {GPUNET_ARGUMENT_SOCKET, 0, sizeof socket, &socket, NULL};
    gpunet_argument small = {GPUNET_ARGUMENT_BYTES, 0, sizeof word, &word, NULL};
    gpunet_argument two[2] = {right, small};
    gpunet_argument other = {77, 0, 0, NULL, NULL};
    gpunet_argument unset = {GPUNET_ARGUMENT_BYTES, 0, 8, NULL, NULL};
    gpunet_argument none = {GPUNET_ARGUMENT_BUFFER, 0, 0, NULL, NULL};
    gpunet_argument keep = {GPUNET_KEEP, 0, 0, NULL, NULL};
    gpunet_argument huge = {GPUNET_ARGUMENT_BYTES, 0, UINT64_C(1) << 62, &word, NULL};

    tell("unknown kernel", gpunet_launch_start(net, image, "absent", &shape, &right, 1, &launch));
    tell("no arguments", gpunet_launch_start(net, image, "echo_server", &shape, NULL, 0, &launch));
    tell("too many", gpunet_launch_start(net, image, "echo_server", &shape, two, 2, &launch));
    tell("wrong size", gpunet_launch_start(net, image, "echo_server", &shape, &small, 1, &launch));
    tell("huge size", gpunet_launch_start(net, image, "echo_server", &shape, &huge, 1, &launch));
    tell("unknown kind", gpunet_launch_start(net, image, "echo_server", &shape, &other, 1, &launch));
    tell("null value", gpunet_launch_start(net, image, "echo_server", &shape, &unset, 1, &launch));
    tell("null buffer", gpunet_launch_start(net, image, "echo_server", &shape, &none, 1, &launch));
    tell("null release", gpunet_launch_start(net, image, "echo_server", &shape, &keep, 1, &launch));
    tell("null arguments", gpunet_launch_start(net, image, "echo_server", &shape, NULL, 1, &launch));
    tell("null shape", gpunet_launch_start(net, image, "echo_server", NULL, &right, 1, &launch));
    tell("null kernel", gpunet_launch_start(net, image, NULL, &shape, &right, 1, &launch));
    tell("null image", gpunet_launch_start(net, NULL, "echo_server", &shape, &right, 1, &launch));
    tell("null result", gpunet_launch_start(net, image, "echo_server", &shape, &right, 1, NULL));
    shape.threads[0] = 2000;
    tell("many threads", gpunet_launch_start(net, image, "echo_server", &shape, &right, 1, &launch));
    shape.threads[0] = 0;
    tell("no threads", gpunet_launch_start(net, image, "echo_server", &shape, &right, 1, &launch));

    gpunet_host_buffer *buffer = NULL;
    must(gpunet_buffer_create(gpu, 16, &buffer));
    tell("beyond a buffer", gpunet_buffer_write(buffer, 12, &socket, 8));
    tell("far beyond", gpunet_buffer_read(buffer, SIZE_MAX, &socket, 8));
    tell("null memory", gpunet_buffer_read(buffer, 0, NULL, 8));
    gpunet_host_flags *flags = NULL;
    tell("no flags", gpunet_flags_create(gpu, 0, 32, &flags));
    tell("flag width", gpunet_flags_create(gpu, 1, 16, &flags));
    must(gpunet_flags_create(gpu, 1, 32, &flags));
    tell("flag index", gpunet_flags_store(flags, 1, 0));
    tell("flag value", gpunet_flags_store(flags, 0, UINT64_C(1) << 32));
    gpunet_host_batch *batch = NULL;
    must(gpunet_batch_create(0, &batch));
    tell("condition", gpunet_batch_wait_flag(batch, flags, 0, 9, 1));
    tell("beyond in a batch", gpunet_batch_send(batch, 0, buffer, 8, 9));
    must(gpunet_batch_free(batch));
    must(gpunet_flags_free(flags));
    must(gpunet_buffer_free(buffer));
    tell("buffer freed twice", gpunet_buffer_free(buffer));
}

/* A process that was forked: nothing hangs, and nothing of the parent is touched. */
static void forked(gpunet_host_gpu *gpu, gpunet_host_net *net)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        tell("child uses", gpunet_net_abort(net));
        gpunet_host_gpu *other = NULL;
        tell("child opens", gpunet_gpu_open("emulated", &other));
        tell("child frees", gpunet_net_free(net));
        tell("child frees the GPU", gpunet_gpu_free(gpu));
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    printf("child ended: %d\n", status);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: errors KERNELS.so OTHER_VERSION.so MISSING.so OTHER_MACHINE.so TEXT CUT_OFF.so\n");
        return 2;
    }
    gpunet_host_gpu *gpu = NULL;
    tell("unknown GPU", gpunet_gpu_open("gpu0", &gpu));
    tell("null choice", gpunet_gpu_open(NULL, &gpu));
    tell("null handle", gpunet_gpu_open("emulated", NULL));
    must(gpunet_gpu_open("emulated", &gpu));

    load(gpu, "other version", argv[2]);
    load(gpu, "missing symbol", argv[3]);
    load(gpu, "wrong architecture", argv[4]);
    load(gpu, "no image", argv[5]);
    load(gpu, "cut off", argv[6]);
    load(gpu, "no file", "/nowhere/kernels.so");
    const char ptx[] = ".version 8.0\n.target sm_90\n";
    gpunet_host_image *image = NULL;
    tell("wrong kind", gpunet_image_load_bytes(gpu, "ptx", ptx, sizeof ptx, &image));
    tell("no functions", gpunet_image_load_functions(gpu, "none", NULL, 0, &image));
    must(gpunet_image_load_file(gpu, "echo", argv[1], &image));

    gpunet_host_net_options *options = NULL;
    must(gpunet_net_options_create(&options));
    tell("unknown option", gpunet_net_options_set(options, "proxy_thread", 4));
    tell("number for a text", gpunet_net_options_set(options, "transport", 4));
    tell("text for a number", gpunet_net_options_set_text(options, "sockets", "4"));
    tell("unknown transport", gpunet_net_options_set_text(options, "transport", "pigeon"));
    tell("wrong rule", gpunet_net_options_set_text(options, "allow_bind", "10.0.0.0/99"));
    must(gpunet_net_options_set(options, "proxy_threads", 1000));
    gpunet_host_net *net = NULL;
    tell("wrong setting", gpunet_net_create(gpu, options, &net));
    must(gpunet_net_create(gpu, NULL, &net));

    uint64_t socket = 0;
    gpunet_address address;
    tell("wrong address", gpunet_net_listen(net, "localhost", &socket, NULL));
    must(gpunet_net_listen(net, "127.0.0.1:0", &socket, &address));
    char text[64];
    must(gpunet_address_text(&address, text, sizeof text, NULL));
    gpunet_status status = gpunet_net_listen(net, text, &socket, NULL);
    printf("address in use: %s, %s: errno %d\n", gpunet_status_name(status), gpunet_status_blame(status),
           gpunet_last_errno());
    tell("no descriptor", gpunet_net_hand_over(net, -1, &socket));
    tell("closed descriptor", gpunet_net_hand_over(net, 9999, &socket));
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) {
        return 1;
    }
    tell("datagrams", gpunet_net_hand_over(net, pair[0], &socket));
    printf("still ours: %d\n", close(pair[0]));
    tell("no socket", gpunet_net_close_socket(net, 12345));
    uint64_t value = 0;
    status = gpunet_net_statistic(net, "bytes", &value);
    printf("unknown counter: %s: %.36s...\n", gpunet_status_name(status), gpunet_last_error());

    launches(gpu, net, image);
    tell("another type", gpunet_net_abort((gpunet_host_net *)gpu));
    tell("no handle", gpunet_net_abort((gpunet_host_net *)(uintptr_t)0x7fff12345678));
    gpunet_host_stream *stream = NULL;
    tell("raw stream", gpunet_stream_from_raw(gpu, 8, &stream));
    gpunet_host_lease *lease = NULL;
    tell("no stream", gpunet_lease_create(net, NULL, 0, NULL, 0, &lease));
    forked(gpu, net);

    must(gpunet_net_free(net));
    tell("freed twice", gpunet_net_free(net));
    tell("used when freed", gpunet_net_abort(net));
    tell("null is nothing", gpunet_net_free(NULL));
    must(gpunet_image_free(image));
    must(gpunet_gpu_free(gpu));
    return 0;
}
