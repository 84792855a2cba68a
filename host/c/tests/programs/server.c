/* A whole program in C11: opens a GPU, listens, loads kernels, serves, tells what was counted, ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpunet/gpunet.h>

static void check(gpunet_status status, const char *what)
{
    if (status != GPUNET_OK) {
        fprintf(stderr, "%s: %s (%s's fault): %s\n", what, gpunet_status_name(status),
                gpunet_status_blame(status), gpunet_last_error());
        exit(1);
    }
}

static void on_print(void *user, uint32_t launch, const char *line)
{
    (void)launch;
    ++*(int *)user;
    (void)line;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: server IMAGE [GPU]\n");
        return 2;
    }
    char text[256];
    gpunet_host_gpu *gpu = NULL;
    check(gpunet_gpu_open(argc > 2 ? argv[2] : "emulated", &gpu), "gpunet_gpu_open");
    check(gpunet_gpu_text(gpu, "reason", text, sizeof text, NULL), "gpunet_gpu_text");
    printf("gpu %s\n", text);

    int lines = 0;
    gpunet_host_net_options *options = NULL;
    check(gpunet_net_options_create(&options), "gpunet_net_options_create");
    check(gpunet_net_options_set(options, "sockets", 32), "sockets");
    check(gpunet_net_options_set(options, "proxy_threads", 2), "proxy_threads");
    check(gpunet_net_options_set(options, "heartbeat_timeout_ns", UINT64_C(20000000000)), "heartbeat");
    check(gpunet_net_options_set_text(options, "transport", "tcp"), "transport");
    check(gpunet_net_options_set_text(options, "allow_connect", "127.0.0.0/8"), "allow_connect");
    check(gpunet_net_options_on_print(options, on_print, &lines), "on_print");
    gpunet_host_net *net = NULL;
    check(gpunet_net_create(gpu, options, &net), "gpunet_net_create");
    check(gpunet_net_options_free(options), "gpunet_net_options_free");

    uint64_t listener = 0;
    gpunet_address bound;
    check(gpunet_net_listen(net, "127.0.0.1:0", &listener, &bound), "gpunet_net_listen");
    gpunet_host_image *image = NULL;
    check(gpunet_image_load_file(gpu, "echo", argv[1], &image), "gpunet_image_load_file");
    check(gpunet_image_kernels(image, text, sizeof text, NULL), "gpunet_image_kernels");
    if (strcmp(text, "echo_listen\necho_server") != 0) {
        fprintf(stderr, "other kernels: %s\n", text);
        return 1;
    }

    gpunet_argument argument = {GPUNET_ARGUMENT_SOCKET, 0, sizeof listener, &listener, NULL};
    gpunet_shape shape = {{2}, {64}, 0, 0};
    gpunet_host_launch *launch = NULL;
    check(gpunet_launch_start(net, image, "echo_server", &shape, &argument, 1, &launch), "gpunet_launch_start");
    check(gpunet_address_text(&bound, text, sizeof text, NULL), "gpunet_address_text");
    printf("listening %s\n", text);
    fflush(stdout);

    /* Until the test says so. */
    if (fgets(text, sizeof text, stdin) == NULL) {
        return 1;
    }
    int32_t finished = 1;
    check(gpunet_launch_is_finished(launch, &finished), "gpunet_launch_is_finished");
    if (finished || gpunet_launch_result(launch) != GPUNET_ETIMEOUT) {
        fprintf(stderr, "the server has ended: %s\n", gpunet_last_error());
        return 1;
    }
    uint64_t counted = 0;
    check(gpunet_net_statistic(net, "received_bytes", &counted), "gpunet_net_statistic");
    printf("received %" PRIu64 "\n", counted);
    uint32_t names = 0;
    while (gpunet_statistic_name(names) != NULL) {
        check(gpunet_net_statistic(net, gpunet_statistic_name(names), &counted), gpunet_statistic_name(names));
        ++names;
    }
    printf("counters %" PRIu32 "\n", names);
    size_t length = 0;
    check(gpunet_net_dump(net, text, sizeof text, &length), "gpunet_net_dump");
    printf("dump %s\n", strstr(text, "\"listener\"") != NULL && length > 100 ? "has the listener" : text);

    check(gpunet_launch_abort(launch), "gpunet_launch_abort");
    check(gpunet_launch_wait(launch, UINT64_C(30000000000)), "gpunet_launch_wait");
    check(gpunet_launch_free(launch), "gpunet_launch_free");
    check(gpunet_net_free(net), "gpunet_net_free");
    check(gpunet_image_free(image), "gpunet_image_free");
    check(gpunet_gpu_free(gpu), "gpunet_gpu_free");
    printf("done %d\n", lines);
    return 0;
}
