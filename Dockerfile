# An image with the commands, whose kernels are compiled while it is built:
#   docker build -t visionnmf .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" visionnmf segment photo.jpg --out out
FROM python:3.13-slim
ENV NUMBA_CACHE_DIR=/opt/kernels NUMBA_CPU_NAME=generic PYTHONDONTWRITEBYTECODE=1
COPY . /source
RUN pip install --no-cache-dir "/source[report,heif,parquet]" && rm -r /source
WORKDIR /data
RUN visionnmf segment sample:coffee --out /tmp/out && visionnmf background sample:surveillance --out /tmp/out \
    && rm -r /tmp/out && chmod -R a+rwX /opt/kernels
ENTRYPOINT ["visionnmf"]
CMD ["--help"]
